//! Aborts what older epochs left in a sink, in recovery and later.

use tokio::time::sleep;
use tracing::{Instrument, info, info_span, warn};

use super::backoff::Backoff;
use super::call::Calls;
use super::erased::ErasedSink;
use crate::error::{SinkError, chain};
use crate::sink::Fence;

/// Aborts what the fence covers. An error that may pass is tried again, with backoff, unless it is to be tried `once`.
pub(super) async fn abort_stale(
    erased: &dyn ErasedSink,
    fence: &Fence<String>,
    calls: Calls,
    once: bool,
) -> Result<(), SinkError> {
    let Fence {
        job, sink, epoch, ..
    } = fence;
    let mut backoff = Backoff::of_calls();
    loop {
        let span = info_span!("abort_stale", %job, %epoch, %sink);
        let aborted = calls.wait("abort_stale", sink, erased.abort_stale(fence));
        match aborted.instrument(span).await {
            Ok(aborted) => {
                for transaction in aborted {
                    info!(%transaction, "aborted: an older epoch left it undecided");
                }
                return Ok(());
            }
            Err(error) if error.kind().is_retriable() && !once => {
                let delay = backoff.next();
                warn!(%job, %sink, error = chain(&error), ?delay, "what older epochs left is not aborted yet");
                sleep(delay).await;
            }
            Err(error) => return Err(error),
        }
    }
}
