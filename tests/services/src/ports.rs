use crate::{ServiceError, random};
use std::net::{Ipv4Addr, TcpListener};

/// Below what systems hand out by themselves (Linux from 32768, others from 49152): while a killed node is away, no
/// outgoing connection takes its port, and no client that keeps trying to connect ends up connected to itself.
const FIRST: u16 = 15_000;
const LAST: u16 = 32_000;

/// Ports that are free now. They stay so only by luck: who binds them later must be ready to try again.
pub(crate) fn free(count: usize) -> Result<Vec<u16>, ServiceError> {
    let candidates = (0..1000).map(|_| {
        FIRST + u16::try_from(random() % u64::from(LAST - FIRST)).expect("a remainder below u16")
    });
    let held: Vec<TcpListener> = candidates
        .filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .take(count)
        .collect();
    if held.len() < count {
        return Err(ServiceError::NoPorts);
    }
    held.iter()
        .map(|listener| {
            listener
                .local_addr()
                .map(|address| address.port())
                .map_err(|_| ServiceError::NoPorts)
        })
        .collect()
}
