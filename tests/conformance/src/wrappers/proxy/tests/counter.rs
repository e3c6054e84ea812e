//! A server that adds up the bytes that it is sent, and answers with the sum.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;

use crate::wrappers::proxy::{Passage, Proxy};

/// Says hello, and then after each byte how many bytes it has got, from all.
async fn serve(listener: TcpListener, count: Arc<AtomicUsize>) {
    loop {
        let (mut client, _) = listener.accept().await.unwrap();
        let count = Arc::clone(&count);
        tokio::spawn(async move {
            client.write_all(&[100]).await.unwrap();
            while client.read_u8().await.is_ok() {
                let sum = count.fetch_add(1, Ordering::SeqCst) + 1;
                client
                    .write_all(&[u8::try_from(sum).unwrap()])
                    .await
                    .unwrap();
            }
        });
    }
}

struct Site {
    proxy: Proxy,
    count: Arc<AtomicUsize>,
}

impl Site {
    async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
        let count = Arc::default();
        tokio::spawn(serve(listener, Arc::clone(&count)));
        Self { proxy, count }
    }

    async fn connect(&self) -> TcpStream {
        let mut client = TcpStream::connect(self.proxy.address()).await.unwrap();
        assert_eq!(client.read_u8().await.unwrap(), 100);
        client
    }

    /// What the server has got, once it is so much.
    async fn counted(&self, sum: usize) {
        while self.count.load(Ordering::SeqCst) != sum {
            tokio::task::yield_now().await;
        }
    }
}

async fn ask(client: &mut TcpStream) -> std::io::Result<u8> {
    client.write_all(&[1]).await?;
    client.read_u8().await
}

#[tokio::test]
async fn counts_requests_and_answers_and_no_greetings() {
    let site = Site::new().await;
    let (mut one, mut two) = (site.connect().await, site.connect().await);
    for sum in [1, 3, 5] {
        assert_eq!(ask(&mut one).await.unwrap(), sum);
        assert_eq!(ask(&mut two).await.unwrap(), sum + 1);
    }
    assert_eq!((site.proxy.requests(), site.proxy.answers()), (6, 6));
}

#[tokio::test]
async fn swallows_the_answer_of_what_is_done() {
    let site = Site::new().await;
    for number in 1..=3 {
        let mut client = site.connect().await;
        let before = site.count.load(Ordering::SeqCst);
        site.proxy.swallow_answer(number);
        for _ in 1..number {
            ask(&mut client).await.unwrap();
            assert!(site.proxy.is_armed());
        }
        ask(&mut client).await.unwrap_err();
        assert!(!site.proxy.is_armed());
        site.counted(before + usize::try_from(number).unwrap())
            .await;
        ask(&mut site.connect().await).await.unwrap();
    }
}

#[tokio::test]
async fn cuts_before_a_request_arrives() {
    let site = Site::new().await;
    for number in 1..=3 {
        let mut client = site.connect().await;
        let before = site.count.load(Ordering::SeqCst);
        site.proxy.cut_before_request(number);
        for _ in 1..number {
            ask(&mut client).await.unwrap();
        }
        ask(&mut client).await.unwrap_err();
        assert!(!site.proxy.is_armed());
        // One more, which is counted after whatever came before it.
        ask(&mut site.connect().await).await.unwrap();
        site.counted(before + usize::try_from(number).unwrap())
            .await;
    }
    site.proxy.cut_before_request(1);
    site.proxy.disarm();
    ask(&mut site.connect().await).await.unwrap();
}

#[tokio::test]
async fn cuts_all_connections() {
    let site = Site::new().await;
    let (mut one, mut two) = (site.connect().await, site.connect().await);
    site.proxy.cut().await.unwrap();
    ask(&mut one).await.unwrap_err();
    ask(&mut two).await.unwrap_err();
    assert_eq!(ask(&mut site.connect().await).await.unwrap(), 1);
}

#[tokio::test]
async fn refuses_and_takes_again() {
    let site = Site::new().await;
    let mut client = site.connect().await;
    site.proxy.set(Passage::Refused).await.unwrap();
    let refused = TcpStream::connect(site.proxy.address()).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::ConnectionRefused);
    assert_eq!(ask(&mut client).await.unwrap(), 1);
    site.proxy.set(Passage::Open).await.unwrap();
    assert_eq!(ask(&mut site.connect().await).await.unwrap(), 2);
}

#[tokio::test]
async fn is_silent_about_what_is_done() {
    let site = Site::new().await;
    let mut client = site.connect().await;
    site.proxy.set(Passage::Silent).await.unwrap();
    client.write_all(&[1]).await.unwrap();
    site.counted(1).await;
    timeout(Duration::from_millis(20), client.read_u8())
        .await
        .unwrap_err();
    site.proxy.set(Passage::Open).await.unwrap();
    assert_eq!(client.read_u8().await.unwrap(), 1);
}

#[tokio::test]
async fn delays_each_answer() {
    let site = Site::new().await;
    let mut client = site.connect().await;
    let delay = Duration::from_millis(20);
    site.proxy.set(Passage::Delayed(delay)).await.unwrap();
    let before = Instant::now();
    for _ in 0..3 {
        ask(&mut client).await.unwrap();
    }
    assert!(before.elapsed() >= delay * 3);
}

#[tokio::test]
async fn ends_with_all_connections_when_dropped() {
    let site = Site::new().await;
    let mut client = site.connect().await;
    let address = site.proxy.address();
    drop(site.proxy);
    client.read_u8().await.unwrap_err();
    while TcpStream::connect(address).await.is_ok() {
        tokio::task::yield_now().await;
    }
}
