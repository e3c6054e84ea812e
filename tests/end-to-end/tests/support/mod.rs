//! What the tests share.

pub mod data;
pub mod log;
pub mod model;
pub mod random;
pub mod site;
pub mod victim;
pub mod watcher;
