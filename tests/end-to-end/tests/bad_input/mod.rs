//! Input, disks and checkpoints that are not as they should be.
