//! Processes that die, stop, sleep and wake.

mod interrupts;
mod points;
mod random;
mod zombies;
