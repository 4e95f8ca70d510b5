//! The guest image.
