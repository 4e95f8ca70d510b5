//! The host's clock beside a guest: when it said what.

use std::time::{Duration, Instant};

use numalab_protocol::record::Record;

use crate::guest::lifecycle::GuestEvent;
use crate::run::result::Times;

/// Whole milliseconds.
pub(super) fn ms(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

/// Takes the times at which a guest says things.
#[derive(Debug)]
pub(super) struct Clock {
    begun: Instant,
    first_step: Option<Duration>,
    end: Option<Duration>,
}

impl Clock {
    pub(super) fn start() -> Clock {
        Clock {
            begun: Instant::now(),
            first_step: None,
            end: None,
        }
    }

    pub(super) fn event(&mut self, event: &GuestEvent<'_>) {
        match event {
            GuestEvent::Record(Record::Step { .. }) => {
                self.first_step.get_or_insert(self.begun.elapsed());
            }
            GuestEvent::Record(Record::End { .. }) => self.end = Some(self.begun.elapsed()),
            _ => {}
        }
    }

    pub(super) fn times(&self) -> Times {
        let steps = self.first_step.zip(self.end);
        Times {
            wall_ms: ms(self.begun.elapsed()),
            first_step_ms: self.first_step.map(ms),
            steps_ms: steps.map(|(first, end)| ms(end.saturating_sub(first))),
            ..Times::default()
        }
    }
}
