//! The protocol, byte by byte.

use foreread_serve::nbd::handshake::{
    Handshake, HandshakeStep, MAX_OPTION, MAX_SKIP, Negotiated, Offer,
};
use foreread_serve::nbd::peer::{self, OptionReply, ReplyHead};
use foreread_serve::nbd::request::{NbdCommand, NbdRequest};
use foreread_serve::nbd::{NbdErrno, ProtocolError, reply, wire};

const OFFER: Offer<'static> = Offer {
    name: "disk",
    description: "a disk",
    size: 1 << 20,
    read_only: false,
    has_control: true,
};

/// Plain hex, blanks as they please.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

/// A handshake in which the flags were exchanged.
fn begun(flags: u32) -> Handshake {
    let mut handshake = Handshake::begin(&mut Vec::new());
    let bytes = flags.to_be_bytes();
    let step = handshake.step(&bytes, &OFFER, &mut Vec::new());
    assert_eq!(step, Ok((4, HandshakeStep::Answered)));
    handshake
}

/// What an option is answered with, and how it goes on.
fn answer(
    handshake: &mut Handshake,
    option: u32,
    data: &[u8],
) -> (Vec<u8>, Result<bool, ProtocolError>) {
    let (mut bytes, mut out) = (Vec::new(), Vec::new());
    peer::option(&mut bytes, option, &[data]);
    let step = handshake.step(&bytes, &OFFER, &mut out);
    let goes_on = step.map(|(used, step)| {
        assert_eq!(used, bytes.len());
        matches!(step, HandshakeStep::Answered)
    });
    (out, goes_on)
}

/// The kinds of all answers.
fn kinds(mut bytes: &[u8]) -> Vec<u32> {
    let mut kinds = Vec::new();
    while let Some((reply, used)) = OptionReply::parse(bytes).unwrap() {
        kinds.push(reply.kind);
        bytes = &bytes[used..];
    }
    assert!(bytes.is_empty());
    kinds
}

#[test]
fn the_greeting_is_eighteen_bytes() {
    let mut out = Vec::new();
    let _ = Handshake::begin(&mut out);
    assert_eq!(out, hex("4e42444d41474943 49484156454f5054 0003"));
    assert_eq!(peer::greeting(&out), Ok(Some(3)));
    for len in 0..out.len() {
        assert_eq!(peer::greeting(&out[..len]), Ok(None));
    }
}

#[test]
fn the_numbers_are_those_of_the_published_protocol() {
    assert_eq!(
        [
            wire::OPT_EXPORT_NAME,
            wire::OPT_ABORT,
            wire::OPT_LIST,
            wire::OPT_STARTTLS,
            wire::OPT_INFO,
            wire::OPT_GO,
            wire::OPT_STRUCTURED_REPLY,
            wire::OPT_LIST_META_CONTEXT,
            wire::OPT_SET_META_CONTEXT,
        ],
        [1, 2, 3, 5, 6, 7, 8, 9, 10]
    );
}

#[test]
fn go_gives_size_flags_and_what_was_asked_for() {
    let mut handshake = begun(3);
    let (out, _) = answer(&mut handshake, wire::OPT_GO, &hex("00000004 6469736b 0002 0003 0001"));
    let head = "0003e889045565a9 00000007";
    let want = [
        format!("{head} 00000003 0000000c 0000 0000000000100000 056d"),
        format!("{head} 00000003 00000006 0001 6469736b"),
        format!("{head} 00000003 0000000e 0003 00000001 00001000 02000000"),
        format!("{head} 00000001 00000000"),
    ];
    assert_eq!(out, hex(&want.concat()));
}

#[test]
fn the_oldest_way_has_padding_unless_the_client_wants_none() {
    let take = |flags| {
        let (mut bytes, mut out) = (Vec::new(), Vec::new());
        peer::option(&mut bytes, wire::OPT_EXPORT_NAME, &[]);
        let (_, step) = begun(flags).step(&bytes, &OFFER, &mut out).unwrap();
        let agreed = Negotiated { size: 1 << 20, ..Negotiated::default() };
        assert_eq!(step, HandshakeStep::Agreed(agreed));
        out
    };
    assert_eq!(take(3), hex("0000000000100000 056d"));
    assert_eq!(take(1)[..10], take(3));
    assert_eq!(take(1)[10..], [0; 124]);
    // Not even fixed newstyle is needed for it; but for all else.
    assert_eq!(take(0).len(), 134);
    assert_eq!(answer(&mut begun(0), wire::OPT_LIST, &[]).1, Err(ProtocolError::NotFixed));
    let (out, end) = answer(&mut begun(3), wire::OPT_EXPORT_NAME, b"other");
    assert_eq!((out, end), (Vec::new(), Err(ProtocolError::NoSuchExport)));
}

#[test]
fn options_that_are_not_known_or_make_no_sense_have_their_errors_and_it_goes_on() {
    let mut handshake = begun(3);
    let cases: [(u32, &str, u32); 14] = [
        (wire::OPT_STARTTLS, "", wire::REP_ERR_UNSUP),
        (11, "", wire::REP_ERR_UNSUP),
        (0x1234_5678, "00", wire::REP_ERR_UNSUP),
        (wire::OPT_LIST, "00", wire::REP_ERR_INVALID),
        (wire::OPT_STRUCTURED_REPLY, "00", wire::REP_ERR_INVALID),
        (wire::OPT_GO, "", wire::REP_ERR_INVALID),
        (wire::OPT_GO, "ffffffff 0000", wire::REP_ERR_INVALID),
        (wire::OPT_GO, "00000000 0002 0003", wire::REP_ERR_INVALID),
        (wire::OPT_GO, "00000000 0000 00", wire::REP_ERR_INVALID),
        (wire::OPT_GO, "00000002 c328 0000", wire::REP_ERR_INVALID),
        (wire::OPT_INFO, "00000001 78 0000", wire::REP_ERR_UNKNOWN),
        (wire::OPT_SET_META_CONTEXT, "00000000 00000000", wire::REP_ERR_INVALID),
        (wire::OPT_LIST_META_CONTEXT, "00000000 ffffffff", wire::REP_ERR_INVALID),
        (wire::OPT_CONTROL, "c328", wire::REP_ERR_INVALID),
    ];
    for (option, data, kind) in cases {
        let (out, goes_on) = answer(&mut handshake, option, &hex(data));
        assert_eq!((kinds(&out), goes_on), (vec![kind], Ok(true)), "option {option}, {data}");
    }
    let (out, _) = answer(&mut handshake, wire::OPT_LIST, &[]);
    assert_eq!(kinds(&out), [wire::REP_SERVER, wire::REP_ACK]);
}

#[test]
fn control_requests_are_handed_out_where_they_are_allowed() {
    let mut bytes = Vec::new();
    peer::option(&mut bytes, wire::OPT_CONTROL, &[b"stats"]);
    let mut out = Vec::new();
    let (used, step) = begun(3).step(&bytes, &OFFER, &mut out).unwrap();
    assert_eq!((used, step), (bytes.len(), HandshakeStep::Control("stats")));
    begun(3).answer(&Ok("{}".into()), &mut out);
    begun(3).answer(&Err("what?".into()), &mut out);
    assert_eq!(kinds(&out), [wire::REP_CONTROL, wire::REP_ERR_INVALID]);
    out.clear();
    let offer = Offer { has_control: false, ..OFFER };
    begun(3).step(&bytes, &offer, &mut out).unwrap();
    assert_eq!(kinds(&out), [wire::REP_ERR_POLICY]);
}

#[test]
fn metadata_contexts_are_listed_and_taken_and_given_up() {
    let mut handshake = begun(3);
    let structured = answer(&mut handshake, wire::OPT_STRUCTURED_REPLY, &[]).0;
    assert_eq!(kinds(&structured), [wire::REP_ACK]);
    let mut ask = |kind, questions: &[&str]| {
        let mut bytes = Vec::new();
        peer::meta_context(&mut bytes, kind, "", questions);
        let mut out = Vec::new();
        handshake.step(&bytes, &OFFER, &mut out).unwrap();
        kinds(&out).len() == 2
    };
    let (list, set) = (wire::OPT_LIST_META_CONTEXT, wire::OPT_SET_META_CONTEXT);
    assert!(ask(list, &[]));
    assert!(ask(list, &["base:"]));
    assert!(!ask(list, &["qemu:dirty-bitmap:x"]));
    assert!(ask(set, &["x-none:x", "base:allocation", "base:allocation"]));
    let mut go = Vec::new();
    peer::info(&mut go, wire::OPT_GO, "", &[]);
    let mut again = handshake.clone();
    let (_, step) = again.step(&go, &OFFER, &mut Vec::new()).unwrap();
    let agreed =
        Negotiated { size: 1 << 20, read_only: false, structured: true, base_allocation: true };
    assert_eq!(step, HandshakeStep::Agreed(agreed));
    // A client that asks for other contexts has given it up.
    let mut bytes = Vec::new();
    peer::meta_context(&mut bytes, set, "", &[]);
    handshake.step(&bytes, &OFFER, &mut Vec::new()).unwrap();
    let (_, step) = handshake.step(&go, &OFFER, &mut Vec::new()).unwrap();
    assert_eq!(step, HandshakeStep::Agreed(Negotiated { base_allocation: false, ..agreed }));
}

#[test]
fn an_option_that_is_too_long_is_skipped_and_one_that_is_far_too_long_ends_it() {
    let head = |len: u32| {
        let mut bytes = wire::OPTION_MAGIC.to_be_bytes().to_vec();
        bytes.extend_from_slice(&wire::OPT_GO.to_be_bytes());
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes
    };
    let mut handshake = begun(3);
    let mut out = Vec::new();
    let long = head(MAX_OPTION + 5);
    let step = handshake.step(&long, &OFFER, &mut out);
    assert_eq!(step, Ok((16, HandshakeStep::Answered)));
    assert_eq!(kinds(&out), [wire::REP_ERR_TOO_BIG]);
    let rest = vec![7; 40_000];
    assert_eq!(handshake.step(&rest, &OFFER, &mut out), Ok((40_000, HandshakeStep::More)));
    let rest = [vec![7; usize::try_from(MAX_OPTION).unwrap() + 5 - 40_000], vec![1, 2]].concat();
    let (used, step) = handshake.step(&rest, &OFFER, &mut out).unwrap();
    assert_eq!((used, step), (rest.len() - 2, HandshakeStep::Answered));
    let (out, _) = answer(&mut handshake, wire::OPT_LIST, &[]);
    assert_eq!(kinds(&out).len(), 2);

    let too_long = head(MAX_SKIP + 1);
    let step = begun(3).step(&too_long, &OFFER, &mut Vec::new());
    assert_eq!(step, Err(ProtocolError::TooBig { len: MAX_SKIP + 1 }));
}

#[test]
fn what_is_no_client_is_told_by_its_first_bytes() {
    let mut handshake = Handshake::begin(&mut Vec::new());
    let step = handshake.step(b"GET / HTTP/1.1\r\n", &OFFER, &mut Vec::new());
    assert_eq!(step, Err(ProtocolError::Flags(0x4745_5420)));
    let step = begun(3).step(b"GET / HTTP/1.1\r\n", &OFFER, &mut Vec::new());
    assert!(matches!(step, Err(ProtocolError::Magic { of: "option", .. })));
    assert!(matches!(NbdRequest::parse(b"GET "), Err(ProtocolError::Magic { of: "request", .. })));
    assert_eq!(NbdRequest::parse(b"GET"), Ok(None));
    assert!(matches!(ReplyHead::parse(b"GET / HT"), Err(ProtocolError::Magic { of: "reply", .. })));
}

#[test]
fn a_request_is_28_bytes() {
    let request = NbdRequest { flags: 1, command: 1, cookie: 0x1122, offset: 0x3344, len: 0x5566 };
    let bytes = hex("25609513 0001 0001 0000000000001122 0000000000003344 00005566");
    assert_eq!(request.bytes()[..], bytes);
    assert_eq!(NbdRequest::parse(&bytes), Ok(Some(request)));
    assert_eq!(request.payload(), 0x5566);
    for len in 0..bytes.len() {
        assert_eq!(NbdRequest::parse(&bytes[..len]), Ok(None));
    }
}

#[test]
fn replies_have_these_bytes() {
    let cookie = 0x0102_0304_0506_0708;
    assert_eq!(reply::simple(cookie, Ok(()))[..], hex("67446698 00000000 0102030405060708"));
    let simple = reply::simple(cookie, Err(NbdErrno::NoSpc));
    assert_eq!(simple[..], hex("67446698 0000001c 0102030405060708"));
    assert_eq!(
        reply::data(cookie, 0x1000, 0x200, true)[..],
        hex("668e33ef 0001 0001 0102030405060708 00000208 0000000000001000")
    );
    assert_eq!(reply::data(cookie, 0, 1, false)[4..6], [0, 0]);
    assert_eq!(
        reply::error(cookie, NbdErrno::Inval)[..],
        hex("668e33ef 0001 8001 0102030405060708 00000006 00000016 0000")
    );
    assert_eq!(
        reply::error_at(cookie, NbdErrno::Io, 0x1000)[..],
        hex("668e33ef 0001 8002 0102030405060708 0000000e 00000005 0000 0000000000001000")
    );
    assert_eq!(
        reply::block_status(cookie, &[(0x1000, true), (0x2000, false)]),
        hex("668e33ef 0001 0005 0102030405060708 00000014 00000001
             00001000 00000000 00002000 00000003")
    );
}

#[test]
fn a_request_that_makes_no_sense_has_its_number() {
    let all =
        Negotiated { size: 1 << 20, read_only: false, structured: true, base_allocation: true };
    let plain = Negotiated { size: 1 << 20, ..Negotiated::default() };
    let fixed = Negotiated { read_only: true, ..all };
    let ask = |command, flags, offset, len| NbdRequest { flags, command, cookie: 0, offset, len };
    let end = 1 << 20;
    let (inval, no_spc, perm) = (Err(NbdErrno::Inval), Err(NbdErrno::NoSpc), Err(NbdErrno::Perm));
    let cases = [
        (ask(wire::CMD_READ, 0, 0, 1), &all, Ok(NbdCommand::Read { whole: false })),
        (ask(wire::CMD_READ, wire::CMD_FLAG_DF, 0, 1), &all, Ok(NbdCommand::Read { whole: true })),
        (ask(wire::CMD_READ, wire::CMD_FLAG_DF, 0, 1), &plain, inval),
        (
            ask(wire::CMD_READ, wire::CMD_FLAG_FUA, end - 1, 1),
            &all,
            Ok(NbdCommand::Read { whole: false }),
        ),
        (ask(wire::CMD_READ, 0, end - 1, 2), &all, inval),
        (ask(wire::CMD_READ, 0, u64::MAX, 2), &all, inval),
        (ask(wire::CMD_READ, 0, 0, 0), &all, inval),
        (ask(wire::CMD_READ, 0, 0, wire::MAX_PAYLOAD + 1), &all, inval),
        (ask(wire::CMD_READ, wire::CMD_FLAG_NO_HOLE, 0, 1), &all, inval),
        (ask(wire::CMD_WRITE, 1, 5, 6), &all, Ok(NbdCommand::Write { fua: true })),
        (ask(wire::CMD_WRITE, 0, end - 1, 2), &all, no_spc),
        (ask(wire::CMD_WRITE, 0, u64::MAX, u32::MAX), &all, inval),
        (ask(wire::CMD_WRITE, 0, 0, 1), &fixed, perm),
        (ask(wire::CMD_WRITE, wire::CMD_FLAG_DF, 0, 1), &all, inval),
        (ask(wire::CMD_TRIM, 0, 0, 1 << 20), &all, Ok(NbdCommand::Trim { fua: false })),
        (ask(wire::CMD_TRIM, 0, 1, 1 << 20), &all, inval),
        (ask(wire::CMD_TRIM, 0, 0, 1), &fixed, perm),
        (ask(wire::CMD_CACHE, 0, 0, 1 << 20), &fixed, Ok(NbdCommand::Cache)),
        (ask(wire::CMD_FLUSH, 0, 0, 0), &fixed, Ok(NbdCommand::Flush)),
        (ask(wire::CMD_FLUSH, 0, 0, 1), &all, inval),
        (
            ask(wire::CMD_WRITE_ZEROES, 2, 0, 9),
            &all,
            Ok(NbdCommand::WriteZeroes { fua: false, may_unmap: false }),
        ),
        (
            ask(wire::CMD_WRITE_ZEROES, 1, 0, 9),
            &all,
            Ok(NbdCommand::WriteZeroes { fua: true, may_unmap: true }),
        ),
        (ask(wire::CMD_WRITE_ZEROES, 0, 1, 1 << 20), &all, no_spc),
        (ask(wire::CMD_WRITE_ZEROES, wire::CMD_FLAG_FAST_ZERO, 0, 9), &all, inval),
        (ask(wire::CMD_BLOCK_STATUS, 8, 0, 9), &all, Ok(NbdCommand::BlockStatus { one: true })),
        (ask(wire::CMD_BLOCK_STATUS, 0, 0, 9), &plain, inval),
        (ask(8, 0, 0, 9), &all, inval),
        (ask(u16::MAX, 0, 0, 9), &all, inval),
        (ask(wire::CMD_DISC, 0, 1, 9), &all, Ok(NbdCommand::Disconnect)),
    ];
    for (request, agreed, want) in cases {
        assert_eq!(request.check(agreed), want, "{request:?}");
    }
}
