//! Small runnable programs, one a lesson: see `src/bin`.
