//! Rules of access by the protocol itself, as hundreds of them are changed: Kafka's own tool takes a second for each.

use std::time::Instant;

use bytes::{BufMut, Bytes, BytesMut};
use cofferdam_services::Kafka;
use kafka_protocol::messages::create_acls_request::AclCreation;
use kafka_protocol::messages::delete_acls_request::DeleteAclsFilter;
use kafka_protocol::messages::{
    CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest, RequestHeader, ResponseHeader,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::broker::PATIENCE;

const VERSION: i16 = 3;
const ALLOW: i8 = 3;

/// What is allowed, by the protocol's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    Any = 1,
    Read = 3,
    Write = 4,
}

/// To what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Any = 1,
    Topic = 2,
    Group = 3,
    TransactionalId = 5,
}

/// To which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    Any = 1,
    Literal = 3,
    Prefix = 4,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Right {
    pub operation: Operation,
    pub kind: Kind,
    pub pattern: Pattern,
    pub name: String,
}

/// Allows a user all of these, and returns once they hold.
pub async fn allow(kafka: &Kafka, user: &str, rights: &[Right]) {
    let creations = rights.iter().map(|right| {
        AclCreation::default()
            .with_resource_type(right.kind as i8)
            .with_resource_name(text(&right.name))
            .with_resource_pattern_type(right.pattern as i8)
            .with_principal(principal(user))
            .with_host(text("*"))
            .with_operation(right.operation as i8)
            .with_permission_type(ALLOW)
    });
    let request = CreateAclsRequest::default().with_creations(creations.collect());
    let answer = call(kafka, &request).await;
    assert!(
        answer.results.iter().all(|result| result.error_code == 0),
        "{answer:?}"
    );
    until(kafka, user, |rules| rules >= rights.len()).await;
}

/// Takes all rights of a user back, and returns once that holds.
pub async fn forbid_all(kafka: &Kafka, user: &str) {
    let all = DeleteAclsFilter::default()
        .with_resource_type_filter(Kind::Any as i8)
        .with_resource_name_filter(None)
        .with_pattern_type_filter(Pattern::Any as i8)
        .with_principal_filter(Some(principal(user)))
        .with_host_filter(None)
        .with_operation(Operation::Any as i8)
        .with_permission_type(Operation::Any as i8);
    let answer = call(kafka, &DeleteAclsRequest::default().with_filters(vec![all])).await;
    assert!(
        answer
            .filter_results
            .iter()
            .all(|result| result.error_code == 0),
        "{answer:?}"
    );
    until(kafka, user, |rules| rules == 0).await;
}

/// Waits until the broker itself goes by so many rules of a user.
async fn until(kafka: &Kafka, user: &str, holds: impl Fn(usize) -> bool) {
    let of_user = DescribeAclsRequest::default()
        .with_resource_type_filter(Kind::Any as i8)
        .with_resource_name_filter(None)
        .with_pattern_type_filter(Pattern::Any as i8)
        .with_principal_filter(Some(principal(user)))
        .with_host_filter(None)
        .with_operation(Operation::Any as i8)
        .with_permission_type(Operation::Any as i8);
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = call(kafka, &of_user).await;
        let rules = answer.resources.iter().map(|resource| resource.acls.len());
        if holds(rules.sum()) {
            return;
        }
        assert!(
            Instant::now() < until,
            "the rules do not come to hold: {answer:?}"
        );
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

/// One request on a connection of its own.
async fn call<R: Request>(kafka: &Kafka, request: &R) -> R::Response {
    let mut stream = TcpStream::connect(kafka.address(1))
        .await
        .expect("a broker");
    let header = RequestHeader::default()
        .with_request_api_key(R::KEY)
        .with_request_api_version(VERSION);
    let mut frame = BytesMut::new();
    frame.put_i32(0);
    header
        .encode(&mut frame, R::header_version(VERSION))
        .expect("a header");
    request.encode(&mut frame, VERSION).expect("a request");
    let length = i32::try_from(frame.len() - 4).expect("a short request");
    frame[..4].copy_from_slice(&length.to_be_bytes());
    stream.write_all(&frame).await.expect("sent");
    let length = stream.read_i32().await.expect("an answer");
    let mut answer = vec![0; usize::try_from(length).expect("a length")];
    stream.read_exact(&mut answer).await.expect("an answer");
    let mut answer = Bytes::from(answer);
    ResponseHeader::decode(&mut answer, R::Response::header_version(VERSION)).expect("a header");
    R::Response::decode(&mut answer, VERSION).expect("an answer")
}

fn principal(user: &str) -> StrBytes {
    text(&format!("User:{user}"))
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}
