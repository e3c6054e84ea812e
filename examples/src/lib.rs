//! Small runnable programs, one a lesson: see `src/bin`.

/// The README's code, so that it compiles.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
pub struct Readme;
