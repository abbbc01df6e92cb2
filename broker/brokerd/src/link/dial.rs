//! Where we knock: connect, say hello, hear the answer, and after a welcome go
//! on as it says, whatever transport this rank prefers itself.

use std::rc::Rc;

use eddy_broker::tree::overlay::{OverlayInput, PipeId};
use eddy_wire::link::{Hello, HelloAnswer};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::fault::Fault;
use super::{End, Hall, dealer, stream, word};

/// One knock of ours, to the end of the pipe that may come of it.
pub(super) async fn dial(hall: Rc<Hall>, pipe: PipeId, door: String, hello: Hello) -> End {
    let (stream, answer) = match knock(&hall, door, &hello).await {
        Ok(answered) => answered,
        Err(fault) => return End::Unanswered(fault),
    };
    let way = match &answer {
        HelloAnswer::Welcome { endpoint, .. } => Some(endpoint.clone()),
        HelloAnswer::Elsewhere { .. } | HelloAnswer::Refused(_) => None,
    };
    hall.say(OverlayInput::Answered(pipe, Ok(answer))).await;
    match way {
        None => End::Known,
        Some(None) => End::Closed(stream::carry(&hall, pipe, stream).await),
        Some(Some(endpoint)) => match meet(&hall, &stream, &endpoint).await {
            Ok(pair) => End::Closed(dealer::carry(&hall, pipe, pair, stream).await),
            Err(fault) => End::Closed(fault),
        },
    }
}

async fn knock(
    hall: &Hall,
    door: String,
    hello: &Hello,
) -> Result<(UnixStream, HelloAnswer), Fault> {
    let limit = hall.limits.connect;
    let mut stream = match timeout(limit, UnixStream::connect(&door)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(source)) => return Err(Fault::Unreached { door, source }),
        Err(_) => {
            return Err(Fault::Late {
                what: "connection to the door",
                limit,
            });
        }
    };
    let uid = stream.peer_cred()?.uid();
    if !hall.admits(uid) {
        let owner = hall.owner;
        return Err(Fault::Foreign { door, uid, owner });
    }
    let limit = hall.limits.hello;
    let talk = async {
        word::write(&mut stream, hello).await?;
        word::read(&mut stream).await
    };
    let what = "answer to our hello";
    let answer = timeout(limit, talk)
        .await
        .unwrap_or(Err(Fault::Late { what, limit }))?;
    Ok((stream, answer))
}

async fn meet(hall: &Hall, stream: &UnixStream, endpoint: &str) -> Result<dealer::Pair, Fault> {
    tokio::select! {
        pair = dealer::connect(hall, endpoint) => pair,
        fault = word::hung_up(stream) => Err(fault),
    }
}
