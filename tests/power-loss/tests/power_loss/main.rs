//! Whatever a loss of power takes, the job goes on from what was promised to be durable, and writes each record once.

mod cuts;
mod examine;
mod history;
mod kills;
mod mutants;
mod promises;
mod recovery;
