//! Any bytes, split anywhere: no panic, no memory, and what is valid means the same.

use foreread_serve::nbd::handshake::{Handshake, HandshakeStep, Negotiated, Offer};
use foreread_serve::nbd::peer::{self, OptionReply, ReplyHead};
use foreread_serve::nbd::request::NbdRequest;
use foreread_serve::nbd::wire;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

const OFFER: Offer<'static> = Offer {
    name: "disk",
    description: "a disk",
    size: 1 << 20,
    read_only: false,
    has_control: true,
};

/// The same bytes in parts of these lengths, the last of them again and again.
fn parts<'b>(bytes: &'b [u8], lens: &[usize]) -> Vec<&'b [u8]> {
    let (mut parts, mut rest, mut at) = (Vec::new(), bytes, 0);
    while !rest.is_empty() {
        let len = lens.get(at.min(lens.len().saturating_sub(1))).copied().unwrap_or(1).max(1);
        let (part, after) = rest.split_at(len.min(rest.len()));
        parts.push(part);
        (rest, at) = (after, at + 1);
    }
    parts
}

/// What a server makes of a handshake: its answers, and how it ended. It never keeps more than one
/// option.
fn shake(parts: &[&[u8]]) -> (Vec<u8>, String) {
    let mut out = Vec::new();
    let mut handshake = Handshake::begin(&mut out);
    let mut kept: Vec<u8> = Vec::new();
    for part in parts {
        kept.extend_from_slice(part);
        loop {
            let before = out.len();
            let (used, goes_on) = match handshake.step(&kept, &OFFER, &mut out) {
                Err(bad) => return (out, format!("{bad:?}")),
                Ok((_, HandshakeStep::Agreed(agreed))) => return (out, format!("{agreed:?}")),
                Ok((_, HandshakeStep::End)) => return (out, "left".into()),
                Ok((used, HandshakeStep::More)) => (used, false),
                Ok((used, HandshakeStep::Answered)) => (used, true),
                Ok((used, HandshakeStep::Control(text))) => {
                    let answer = Ok(text.to_owned());
                    handshake.answer(&answer, &mut out);
                    (used, true)
                }
            };
            assert!(used > 0 || !goes_on, "it goes on without a byte");
            assert!(out.len() - before < 80_000, "a long answer to a short question");
            kept.drain(..used);
            if !goes_on {
                break;
            }
        }
        assert!(kept.len() <= 16 + (64 << 10) + part.len(), "more than an option is kept");
    }
    (out, "more".into())
}

/// An option, mostly one that makes sense.
fn option() -> impl Strategy<Value = Vec<u8>> {
    let known = select(vec![1_u32, 2, 3, 5, 6, 7, 8, 9, 10, 11, wire::OPT_CONTROL, 77]);
    let name = select(vec!["", "disk", "other", "disk\0"]);
    let sane = (known.clone(), name, vec(0_u16..6, 0..4)).prop_map(|(option, name, kinds)| {
        let mut out = Vec::new();
        match option {
            6 | 7 => peer::info(&mut out, option, name, &kinds),
            9 | 10 => peer::meta_context(&mut out, option, name, &["base:allocation", name]),
            1 | wire::OPT_CONTROL => peer::option(&mut out, option, &[name.as_bytes()]),
            _ => peer::option(&mut out, option, &[]),
        }
        out
    });
    let odd = (known.clone(), vec(any::<u8>(), 0..64)).prop_map(|(option, data)| {
        let mut out = Vec::new();
        peer::option(&mut out, option, &[&data]);
        out
    });
    let lying = (known, any::<u32>(), vec(any::<u8>(), 0..64)).prop_map(|(option, len, data)| {
        let mut out = wire::OPTION_MAGIC.to_be_bytes().to_vec();
        out.extend_from_slice(&option.to_be_bytes());
        out.extend_from_slice(&(len >> (len % 32)).to_be_bytes());
        out.extend_from_slice(&data);
        out
    });
    prop_oneof![6 => sane, 2 => odd, 1 => lying, 1 => vec(any::<u8>(), 0..40)]
}

fn handshake_bytes() -> impl Strategy<Value = Vec<u8>> {
    let flags = prop_oneof![8 => select(vec![0_u32, 1, 2, 3]), 1 => any::<u32>()];
    (flags, vec(option(), 0..8))
        .prop_map(|(flags, options)| [flags.to_be_bytes().to_vec(), options.concat()].concat())
}

fn request() -> impl Strategy<Value = NbdRequest> {
    let number = || prop_oneof![0_u64..5000, any::<u64>(), (1 << 20) - 3..(1 << 20) + 3_u64];
    let len = prop_oneof![0_u32..5000, any::<u32>(), select(vec![wire::MAX_PAYLOAD, 1 << 20])];
    (any::<u16>(), 0_u16..10, any::<u64>(), number(), len).prop_map(
        |(flags, command, cookie, offset, len)| {
            let flags = flags >> (flags % 16);
            NbdRequest { flags, command, cookie, offset, len }
        },
    )
}

/// A stream of requests with their payloads, read as a server reads it.
fn requests(parts: &[&[u8]]) -> (Vec<NbdRequest>, usize, bool) {
    let (mut kept, mut skip, mut found): (Vec<u8>, usize, _) = (Vec::new(), 0, Vec::new());
    for part in parts {
        kept.extend_from_slice(part);
        loop {
            let skipped = skip.min(kept.len());
            kept.drain(..skipped);
            skip -= skipped;
            if skip > 0 {
                break;
            }
            match NbdRequest::parse(&kept) {
                Err(_) => return (found, kept.len().min(4), true),
                Ok(None) => break,
                Ok(Some(request)) => {
                    kept.drain(..NbdRequest::LEN);
                    skip = request.payload() as usize;
                    found.push(request);
                }
            }
        }
        assert!(kept.len() < NbdRequest::LEN, "no more than the begin of a request is kept");
    }
    (found, kept.len() + skip, false)
}

/// What holds of a request whatever is in it: no offset past the end is ever handed on.
fn check(request: &NbdRequest) {
    for bits in 0..8 {
        let [read_only, structured, base_allocation] = [1, 2, 4].map(|bit| bits & bit != 0);
        let agreed = Negotiated { size: 1 << 20, read_only, structured, base_allocation };
        if let Ok(command) = request.check(&agreed) {
            use foreread_serve::nbd::request::NbdCommand;
            let is_free = matches!(command, NbdCommand::Disconnect | NbdCommand::Flush);
            assert!(is_free || request.offset + u64::from(request.len) <= agreed.size);
            assert!(is_free || request.len > 0);
        }
    }
}

fn handshakes(cases: u32) {
    let lens = vec(1_usize..40, 1..8);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(bytes in handshake_bytes(), lens in lens)| {
        let whole = shake(&[&bytes]);
        prop_assert_eq!(&shake(&parts(&bytes, &lens)), &whole);
        prop_assert_eq!(&shake(&parts(&bytes, &[1])), &whole);
    });
}

fn transmissions(cases: u32) {
    let garbage = vec(any::<u8>(), 0..60);
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    proptest!(config, |(asked in vec(request(), 0..8), tail in garbage, lens in vec(1_usize..60, 1..8))| {
        let mut bytes = Vec::new();
        for request in &asked {
            check(request);
            prop_assert_eq!(NbdRequest::parse(&request.bytes()), Ok(Some(*request)));
            bytes.extend_from_slice(&request.bytes());
            // Long payloads end where the stream ends.
            bytes.extend(std::iter::repeat_n(9, request.payload().min(5000) as usize));
        }
        bytes.extend_from_slice(&tail);
        let whole = requests(&[&bytes]);
        prop_assert_eq!(&requests(&parts(&bytes, &lens)).0, &whole.0);
        prop_assert_eq!(&requests(&parts(&bytes, &lens)).2, &whole.2);
    });
}

/// The client's side: what a server of any kind may say.
fn answers(cases: u32) {
    let config = ProptestConfig { cases, failure_persistence: None, ..ProptestConfig::default() };
    let head = select(vec![
        wire::OPTION_REPLY_MAGIC.to_be_bytes().to_vec(),
        wire::SIMPLE_REPLY_MAGIC.to_be_bytes().to_vec(),
        wire::STRUCTURED_REPLY_MAGIC.to_be_bytes().to_vec(),
        Vec::new(),
    ]);
    proptest!(config, |(head in head, rest in vec(any::<u8>(), 0..60))| {
        let bytes = [head, rest].concat();
        if let Ok(Some((reply, used))) = OptionReply::parse(&bytes) {
            prop_assert!(used <= bytes.len());
            let _ = reply.text();
            reply.note_export(&mut Negotiated::default());
        }
        if let Ok(Some((_, used))) = ReplyHead::parse(&bytes) {
            prop_assert!(used <= bytes.len());
        }
        let _ = peer::greeting(&bytes);
    });
}

#[test]
fn a_handshake_of_any_bytes_means_the_same_however_it_is_split() {
    handshakes(3_000);
}

#[test]
fn requests_of_any_bytes_mean_the_same_however_they_are_split() {
    transmissions(3_000);
}

#[test]
fn a_server_of_any_kind_does_no_harm_to_its_client() {
    answers(3_000);
}

#[test]
#[ignore = "two minutes"]
fn the_same_for_a_hundred_thousand_cases_each() {
    handshakes(100_000);
    transmissions(100_000);
    answers(100_000);
}
