//! Access rules: a target without rights is hidden from a client, and names are compared byte by
//! byte.

mod common;

use common::{Client, Lost, Machine, Plan, client_options, dial, hear, options, slices};
use layout::Level;
use nbd::ReplyStyle;
use platform::Stream;
use ports::{Access, ServerOptions, SessionOptions};
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

const READ_ONLY: u16 = 2;
const ACK: u32 = 1;
const SERVER: u32 = 2;
const INFO: u32 = 3;
const ERROR: u32 = 1 << 31;

/// The clients are on a machine that cannot identify their user, so only rules for all clients
/// apply.
fn machine(rules: &str, names: &[&'static str]) -> Machine {
    let plan =
        |&name: &&'static str| Plan { name, level: Level::Raid1, drives: 2, drive_bytes: 1 << 20 };
    let plans: Vec<Plan> = names.iter().map(plan).collect();
    let access = Some(Arc::new(Access::parse(rules).unwrap()));
    let session = SessionOptions { access, ..SessionOptions::default() };
    Machine::start_with(options(1), &plans, session, ServerOptions::default())
}

/// A connection in option negotiation, with the received bytes that are not read yet.
struct Options {
    stream: Rc<dyn Stream>,
    heard: VecDeque<u8>,
}

impl Options {
    async fn begin(env: &platform::Env) -> Options {
        let mut options = Options { stream: dial(env).await, heard: VecDeque::new() };
        assert_eq!(options.take(18).await.len(), 18, "a greeting");
        options.say(&3_u32.to_be_bytes()).await;
        options
    }

    async fn say(&self, bytes: &[u8]) {
        assert!(self.stream.send(slices(bytes)).await.result.is_ok());
    }

    /// The next `count` bytes; fewer at the end of the stream.
    async fn take(&mut self, count: usize) -> Vec<u8> {
        while self.heard.len() < count {
            let more = hear(&*self.stream).await;
            if more.is_empty() {
                break;
            }
            self.heard.extend(more);
        }
        self.heard.drain(..count.min(self.heard.len())).collect()
    }

    async fn ask(&mut self, option: u32, data: &[u8]) {
        let mut ask = b"IHAVEOPT".to_vec();
        ask.extend(option.to_be_bytes());
        ask.extend((data.len() as u32).to_be_bytes());
        ask.extend(data);
        self.say(&ask).await;
    }

    /// The replies to an option: their types and their data.
    async fn replies(&mut self, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.ask(option, data).await;
        let mut replies = Vec::new();
        loop {
            let head = self.take(20).await;
            let word = |at: usize| u32::from_be_bytes(head[at..at + 4].try_into().unwrap());
            let (kind, length) = (word(12), word(16));
            replies.push((kind, self.take(length as usize).await));
            if kind == ACK || kind >= ERROR {
                return replies;
            }
        }
    }

    async fn list(&mut self) -> Vec<String> {
        let replies = self.replies(3, b"").await;
        let exports = replies.iter().filter(|(kind, _)| *kind == SERVER);
        // The length of the name, the name, and its description.
        let name = |data: &[u8]| {
            let length = u32::from_be_bytes(data[..4].try_into().unwrap()) as usize;
            String::from_utf8(data[4..4 + length].to_vec()).unwrap()
        };
        exports.map(|(_, data)| name(data)).collect()
    }

    /// The flags of an export, or its error.
    async fn flags(&mut self, name: &[u8]) -> Result<u16, u32> {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend(name);
        data.extend([0, 0]);
        let replies = self.replies(6, &data).await;
        let export = replies.iter().find(|(kind, data)| *kind == INFO && data.starts_with(&[0, 0]));
        let last = replies.last().unwrap().0;
        export.map(|(_, data)| u16::from_be_bytes([data[10], data[11]])).ok_or(last)
    }

    /// The oldest option has no error reply: returns whether the connection ends instead.
    async fn gets_cut_off(mut self, name: &[u8]) -> bool {
        self.ask(1, name).await;
        self.take(10).await.is_empty()
    }
}

#[test]
fn what_a_client_has_no_right_to_is_as_if_it_were_not_there() {
    let rules = "pub anybody read-write\nro anybody read-only\npriv uid:0 read-write\n";
    let mut machine = machine(rules, &["pub", "ro", "priv"]);
    machine.run(async move |env| {
        let mut options = Options::begin(&env).await;
        assert_eq!(options.list().await, ["pub", "ro"]);
        let flags = |flags: Result<u16, u32>| flags.map(|flags| flags & READ_ONLY);
        assert_eq!(flags(options.flags(b"pub").await), Ok(0));
        assert_eq!(flags(options.flags(b"ro").await), Ok(READ_ONLY));
        let absent = options.flags(b"absent").await.unwrap_err();
        let names = [
            &b"priv"[..],
            b"PUB",
            b"Pub",
            b"pub ",
            b" pub",
            b"../priv",
            b"*",
            b"pub\n",
            "prıv".as_bytes(),
        ];
        for name in names {
            assert_eq!(options.flags(name).await, Err(absent), "{name:?}");
            assert!(Options::begin(&env).await.gets_cut_off(name).await, "{name:?}");
        }
        // A NUL does not end a name early.
        for name in [&b"pub\0priv"[..], b"pub\0", b"\0"] {
            assert!(options.flags(name).await.is_err(), "{name:?}");
            assert!(Options::begin(&env).await.gets_cut_off(name).await, "{name:?}");
        }
        // The empty name selects an export only if the client may use exactly one.
        assert_eq!(options.flags(b"").await, Err(absent));
        drop(options);
        let refused = Client::connect(&env, client_options("priv", ReplyStyle::Structured)).await;
        assert!(matches!(refused, Err(Lost::Closed | Lost::Protocol(_))));
    });
    machine.assert_nothing_left();
}

/// The server itself must enforce read-only access.
#[test]
fn who_may_only_read_writes_nothing_whatever_it_sends() {
    const EPERM: u32 = 1;
    let mut machine = machine("ro anybody read-only\npriv uid:0 read-write\n", &["priv", "ro"]);
    machine.run(async move |env| {
        // The client may use one export, so the empty name selects it.
        for name in ["ro", ""] {
            let mut client = Options::begin(&env).await;
            let mut go = (name.len() as u32).to_be_bytes().to_vec();
            go.extend(name.as_bytes());
            go.extend([0, 0]);
            assert_eq!(client.replies(7, &go).await.last().unwrap().0, ACK);
            // A write, a trim, zeroes, and a read.
            for (command, payload, error) in
                [(1_u16, 512, EPERM), (4, 0, EPERM), (6, 0, EPERM), (0, 0, 0)]
            {
                let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
                request.extend([0, 0]);
                request.extend(command.to_be_bytes());
                request.extend(u64::from(command).to_be_bytes());
                request.extend(0_u64.to_be_bytes());
                request.extend(512_u32.to_be_bytes());
                request.extend(vec![7; payload]);
                client.say(&request).await;
                let reply = client.take(16).await;
                assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes(), "{command}");
                assert_eq!(reply[4..8], error.to_be_bytes(), "{command}");
            }
            assert_eq!(client.take(512).await, [0; 512], "nothing was written");
        }
    });
    machine.assert_nothing_left();
}
