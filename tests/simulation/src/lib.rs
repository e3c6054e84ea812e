//! Runs the real runtime through seeded schedules of faults on a simulated clock.
