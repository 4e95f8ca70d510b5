//! Progress of long tasks: bars on a terminal, plain lines elsewhere, nothing with --quiet. All
//! of it goes to standard error; results go to standard output.

use std::borrow::Cow;
use std::fmt;
use std::io::{IsTerminal, Write as _};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use miette::{Diagnostic, GraphicalReportHandler, GraphicalTheme, MietteHandler, ReportHandler};
use numalab_kernels::{BuildEvent, Progress};

use crate::guest::escape::terminal_safe;

/// Writes a line to standard error. Failing to is no reason to stop.
pub fn put(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", terminal_safe(text));
}

/// How often a plain line shows a count.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Shows progress.
#[derive(Debug)]
pub struct Ui {
    style: Style,
    /// Whether each line of a build's output is shown.
    lines: bool,
    state: Mutex<State>,
}

#[derive(Debug, Clone)]
enum Style {
    Bars(MultiProgress),
    Lines,
    Quiet,
}

#[derive(Debug, Default)]
struct State {
    bar: Option<ProgressBar>,
    said: Option<Instant>,
}

impl Ui {
    /// Bars on a terminal, lines elsewhere; nothing if `quiet`.
    pub fn new(quiet: bool) -> Ui {
        let style = if quiet {
            Style::Quiet
        } else if std::io::stderr().is_terminal() {
            Style::Bars(MultiProgress::new())
        } else {
            Style::Lines
        };
        Ui {
            style,
            lines: false,
            state: Mutex::default(),
        }
    }

    /// The same that also shows each line of a build's output.
    #[must_use]
    pub fn with_build_output(&self) -> Ui {
        Ui {
            style: self.style.clone(),
            lines: true,
            state: Mutex::default(),
        }
    }

    /// Shows a line.
    pub fn say(&self, line: &str) {
        match &self.style {
            Style::Bars(bars) => {
                // Failing to is no reason to stop.
                let _ = bars.println(terminal_safe(line));
            }
            Style::Lines => put(line),
            Style::Quiet => {}
        }
    }

    /// Shows a warning, even with --quiet.
    pub fn warn(&self, line: &str) {
        match &self.style {
            Style::Quiet => put(&format!("warning: {line}")),
            _ => self.say(&format!("warning: {line}")),
        }
    }

    /// Shows a task until the handle is dropped.
    pub fn task(&self, what: &str) -> Task {
        let bar = match &self.style {
            Style::Bars(bars) => {
                let bar = bars.add(ProgressBar::new_spinner());
                bar.set_style(style("{spinner} {msg} {elapsed}"));
                bar.set_message(terminal_safe(what).into_owned());
                bar.enable_steady_tick(Duration::from_millis(200));
                bar
            }
            Style::Lines => {
                self.say(what);
                ProgressBar::hidden()
            }
            Style::Quiet => ProgressBar::hidden(),
        };
        Task {
            bar,
            what: terminal_safe(what).into_owned(),
        }
    }

    fn count(&self, what: &str, done: u64, total: Option<u64>) {
        let Ok(mut state) = self.state.lock() else {
            return;
        };
        match &self.style {
            Style::Bars(bars) => {
                let bar = state.bar.get_or_insert_with(|| {
                    let bar = bars.add(ProgressBar::new(0));
                    bar.set_style(style("{msg} [{bar:30}] {pos}/{len} {elapsed}"));
                    bar
                });
                bar.set_message(what.to_owned());
                bar.set_length(total.unwrap_or(done).max(done));
                bar.set_position(done);
            }
            Style::Lines if state.said.is_none_or(|said| said.elapsed() >= LINE_EVERY) => {
                state.said = Some(Instant::now());
                match total {
                    Some(total) => put(&format!("  {what}: {done} of about {}", total.max(done))),
                    None => put(&format!("  {what}: {done}")),
                }
            }
            Style::Lines | Style::Quiet => {}
        }
    }

    fn end_count(&self) {
        if let Ok(mut state) = self.state.lock() {
            if let Some(bar) = state.bar.take() {
                bar.finish_and_clear();
            }
            state.said = Some(Instant::now());
        }
    }
}

// Templates are constants; a wrong one falls back to the default.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Sets how errors are shown: wrapped on a terminal, each message on one line elsewhere.
pub fn show_errors_plainly() {
    let terminal = std::io::stderr().is_terminal();
    // It fails only if it was set before.
    let _ = miette::set_hook(Box::new(move |_| {
        let options = miette::MietteHandlerOpts::new()
            .break_words(false)
            .wrap_lines(terminal);
        Box::new(ErrorHandler {
            shown: options.build(),
            plain: GraphicalReportHandler::new_themed(GraphicalTheme::unicode_nocolor())
                .with_wrap_lines(false),
        })
    }));
}

/// Shows an error as miette does, without the escape codes in what it quotes.
struct ErrorHandler {
    shown: MietteHandler,
    plain: GraphicalReportHandler,
}

impl ReportHandler for ErrorHandler {
    fn debug(&self, error: &dyn Diagnostic, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without colours, every escape code is the error's own.
        let mut plain = String::new();
        self.plain.render_report(&mut plain, error)?;
        match terminal_safe(&plain) {
            Cow::Borrowed(_) => self.shown.debug(error, f),
            Cow::Owned(escaped) => f.write_str(&escaped),
        }
    }
}

/// A task that is shown while this lives.
#[derive(Debug)]
pub struct Task {
    bar: ProgressBar,
    what: String,
}

impl Task {
    /// Shows the stage of the task.
    pub fn stage(&self, stage: &str) {
        let stage = terminal_safe(stage);
        self.bar.set_message(format!("{}: {stage}", self.what));
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Progress for Ui {
    fn event(&self, event: BuildEvent<'_>) {
        match event {
            BuildEvent::BuildStage { stage, detail } => {
                self.end_count();
                self.say(&format!("{stage} {detail}"));
            }
            BuildEvent::Count { stage, done, total } => self.count(&stage.to_string(), done, total),
            BuildEvent::Line(line) | BuildEvent::Note(line) => self.say(line),
            BuildEvent::Warning(line) => self.warn(line),
        }
    }

    fn wants_lines(&self) -> bool {
        self.lines
    }
}
