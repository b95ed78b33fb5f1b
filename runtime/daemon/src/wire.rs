//! Errors as gRPC statuses and back: an `ErrorDetail` travels in the status's binary details.

use prost::Message;
use tonic::{Code, Status};
use tpud_proto::rpc::{Any, DETAIL_URL, RpcStatus};
use tpud_proto::v1;

/// Headers have a size limit of their own (16 KiB in many clients), so what travels in one is cut to this.
const MAX_DETAIL: usize = 6 << 10;
const MAX_MESSAGE: usize = 2 << 10;

/// A gRPC status with the detail in its binary details.
pub(crate) fn to_status(error: v1::Error) -> Status {
    let code = Code::from(i32::try_from(error.code).unwrap_or_default());
    let message = clip(error.message, MAX_MESSAGE);
    let detail = shorten(error.detail.unwrap_or_default());
    let any = Any { type_url: DETAIL_URL.to_owned(), value: detail.encode_to_vec() };
    let rpc = RpcStatus { code: code as i32, message: message.clone(), details: vec![any] };
    Status::with_details(code, message, rpc.encode_to_vec().into())
}

/// The error that a status of this daemon carries. For the command line and for tests.
pub fn from_status(status: &Status) -> v1::Error {
    let detail = RpcStatus::decode(status.details())
        .ok()
        .and_then(|rpc| rpc.details.into_iter().find(|any| any.type_url == DETAIL_URL))
        .and_then(|any| v1::ErrorDetail::decode(any.value.as_slice()).ok());
    v1::Error { code: status.code() as u32, message: status.message().to_owned(), detail }
}

fn clip(mut text: String, limit: usize) -> String {
    if text.len() > limit {
        let end = (0..=limit).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Drops what does not fit in a header, the least useful first: old log lines, then all but the first issues.
fn shorten(mut detail: v1::ErrorDetail) -> v1::ErrorDetail {
    while detail.encoded_len() > MAX_DETAIL && !detail.log_tail.is_empty() {
        detail.log_tail = match detail.log_tail.split_once('\n') {
            Some((_, rest)) => rest.to_owned(),
            None => String::new(),
        };
    }
    if detail.encoded_len() <= MAX_DETAIL {
        return detail;
    }
    for issue in &mut detail.issues {
        issue.message = clip(std::mem::take(&mut issue.message), 200);
    }
    let total = detail.issues.len();
    // One of each op says more than many of one.
    let mut seen = std::collections::BTreeSet::new();
    let (first, again): (Vec<_>, Vec<_>) =
        std::mem::take(&mut detail.issues).into_iter().partition(|issue| seen.insert(issue.op.clone()));
    detail.issues = first.into_iter().chain(again).collect();
    while detail.encoded_len() > MAX_DETAIL && !detail.issues.is_empty() {
        let keep = detail.issues.len() * 3 / 4;
        detail.issues.truncate(keep);
    }
    if detail.issues.len() < total {
        detail.hint =
            format!("{} (the first {} of {total} issues)", clip(detail.hint, 500), detail.issues.len());
    }
    detail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_carries_its_detail() {
        let detail = v1::ErrorDetail { reason: "X".into(), hint: "do y".into(), ..Default::default() };
        let error = v1::Error { code: 9, message: "no".into(), detail: Some(detail) };
        let status = to_status(error.clone());
        assert_eq!(status.code(), Code::FailedPrecondition);
        assert_eq!(from_status(&status), error);
    }

    #[test]
    fn details_fit_in_a_header() {
        let issue = v1::Issue { op: "aten.x.default".into(), message: "m".repeat(900), ..Default::default() };
        let detail = v1::ErrorDetail {
            reason: "X".into(),
            issues: vec![issue; 500],
            log_tail: "é line\n".repeat(5000),
            ..Default::default()
        };
        let status = to_status(v1::Error { code: 12, message: "é".repeat(9000), detail: Some(detail) });
        assert!(status.details().len() < 10 << 10, "{}", status.details().len());
        let back = from_status(&status).detail.unwrap();
        assert!(back.issues.len() > 5 && back.hint.contains("of 500"), "{}", back.issues.len());
    }
}
