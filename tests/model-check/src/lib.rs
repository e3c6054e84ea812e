//! Checks the protocol's state machines in every order of events.
