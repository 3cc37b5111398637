//! Proxies and names.

use std::{
    fs,
    net::{Ipv4Addr, Ipv6Addr, UdpSocket},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use serde_json::json;
use suite::{
    needs::{Need, needs},
    pause,
    proxy::Proxy,
    relay::{Relay, Way},
    sidecar::behind,
    within,
};

use crate::{
    config,
    stage::{RECOVERY, Stage},
    strike::{each, ends, healthy_throughout},
};

/// Makes the program call its local cluster so; the certificate is for another name.
fn call_it(command: &Command, server: &str) {
    config::change(command, |config| {
        let cluster = &mut config["clusters"][0]["cluster"];
        cluster["server"] = json!(format!("https://{server}"));
        cluster["tls-server-name"] = json!("localhost");
    });
}

#[test]
fn proxy_of_the_environment_is_used() {
    each("proxy", |stage| {
        let proxy = Proxy::to(&stage.own().cluster.address);
        let mut process = stage.start_as(&|command| {
            call_it(command, "cluster.example:6443");
            command.env("HTTPS_PROXY", proxy.url()).env("NO_PROXY", "127.0.0.0/8,[::1],.svc");
        });
        stage.settle(&process);
        stage.lives(&process);
        assert!(
            proxy.asked().iter().all(|line| line == "CONNECT cluster.example:6443 HTTP/1.1"),
            "{:?}",
            proxy.asked()
        );
        ends(&mut process);
    });
}

/// What a name service says.
#[derive(Clone, Debug)]
enum Answer {
    /// These A records, and these AAAA records.
    Records(Vec<[u8; 4]>, Vec<[u8; 16]>),
    /// A response code: 2 is SERVFAIL, 3 is NXDOMAIN.
    Code(u8),
    Nothing,
}

/// A name service of one's own on port 53 of an address of the loopback.
struct Names {
    address: String,
    answer: Arc<Mutex<Answer>>,
    over: Arc<AtomicBool>,
}

impl Names {
    /// None where this user may not take the port.
    fn start(answer: Answer) -> Option<Self> {
        static NEXT: AtomicUsize = AtomicUsize::new(1);
        let pid = std::process::id();
        let last = NEXT.fetch_add(1, SeqCst);
        let address = format!("127.{}.{}.{last}", 100 + pid / 250 % 100, pid % 250);
        let socket = UdpSocket::bind((&*address, 53)).ok()?;
        let names = Self { address, answer: Arc::new(Mutex::new(answer)), over: Arc::default() };
        let (answer, over) = (names.answer.clone(), names.over.clone());
        socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time limit");
        thread::spawn(move || {
            let mut packet = [0; 512];
            while !over.load(SeqCst) {
                let Ok((length, client)) = socket.recv_from(&mut packet) else { continue };
                if let Some(reply) = reply(&packet[..length], &answer.lock().expect("lock")) {
                    let _ = socket.send_to(&reply, client);
                }
            }
        });
        Some(names)
    }

    fn say(&self, answer: Answer) {
        *self.answer.lock().expect("lock") = answer;
    }

    /// `command` where this is the only name service.
    fn only(&self, command: &Command) -> Command {
        let text = format!("nameserver {}\n", self.address);
        let file = config::write(command, "resolv.conf", &text);
        let script = r#"mount --bind "$RESOLV" /etc/resolv.conf && exec "$0" "$@""#;
        let mut command = behind(&["unshare", "-m", "sh", "-c", script], command);
        command.env("RESOLV", file);
        command
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        self.over.store(true, SeqCst);
    }
}

/// The answer to a question for one name (RFC 1035, section 4).
fn reply(question: &[u8], answer: &Answer) -> Option<Vec<u8>> {
    const A: u8 = 1;
    const AAAA: u8 = 28;
    let name = question.get(12..)?.iter().position(|byte| *byte == 0)? + 13;
    let kind = *question.get(name + 1)?;
    let (code, records) = match answer {
        Answer::Nothing => return None,
        Answer::Code(code) => (*code, Vec::new()),
        Answer::Records(four, _) if kind == A => (0, four.iter().map(|it| it.to_vec()).collect()),
        Answer::Records(_, six) if kind == AAAA => (0, six.iter().map(|it| it.to_vec()).collect()),
        Answer::Records(..) => (0, Vec::new()),
    };
    let count = u8::try_from(records.len()).ok()?;
    let mut reply = question[..2].to_vec();
    reply.extend([0x81, 0x80 | code, 0, 1, 0, count, 0, 0, 0, 0]);
    reply.extend(&question[12..name + 4]);
    for record in records {
        // The name of the question; class IN; good for no time at all.
        reply.extend([0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 0, 0, record.len() as u8]);
        reply.extend(record);
    }
    Some(reply)
}

const HERE: [u8; 4] = [127, 0, 0, 1];
const HERE_6: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];

/// Runs `test` on each program that knows its local cluster by a name, if a name service can be made.
fn named(
    name: &str,
    first: &Answer,
    test: impl Fn(&dyn Stage, &Names, suite::sidecar::Sidecar) + Sync,
) {
    let mount = ["unshare", "-m", "mount", "--bind", "/etc/hosts", "/etc/resolv.conf"];
    let serves = Names::start(Answer::Nothing).is_some();
    if !needs(Need::Command(&mount), "this user may not mount a resolv.conf")
        || !needs(Need::Found(serves), "this user may not serve port 53")
    {
        return;
    }
    each(name, |stage| {
        let names = Names::start(first.clone()).expect("a port of one's own");
        let port = stage.own().relay.address.port();
        let process = stage.start_as(&|command| {
            call_it(command, &format!("cluster.test:{port}"));
            *command = names.only(command);
        });
        test(stage, &names, process);
    });
}

#[test]
fn name_service_that_comes_back_is_enough() {
    named("fails", &Answer::Records(vec![HERE], vec![]), |stage, names, mut process| {
        stage.settle(&process);
        names.say(Answer::Nothing);
        stage.own().relay.cut();
        healthy_throughout(&process, || {
            pause(8000);
            names.say(Answer::Records(vec![HERE], vec![]));
            stage.lives(&process);
        });
        ends(&mut process);
    });
}

#[test]
fn name_service_that_fails_at_the_start_is_waited_for() {
    for code in [2, 3] {
        named("late", &Answer::Code(code), |stage, names, mut process| {
            process.wait_for("cluster.test");
            process.wait_for_code("/healthz", 200);
            names.say(Answer::Records(vec![HERE], vec![]));
            within(RECOVERY, "it is well", || process.ask("/readyz").0 == 200);
            stage.settle(&process);
            stage.lives(&process);
            ends(&mut process);
        });
    }
}

#[test]
fn last_of_twenty_addresses_is_found() {
    let far = [127, 99, 0, 20];
    let many = [HERE].into_iter().chain((2..20).map(|n| [127, 99, 0, n])).chain([far]).collect();
    named("many", &Answer::Records(many, vec![]), |stage, _, mut process| {
        stage.settle(&process);
        let own = stage.own();
        let address = (Ipv4Addr::from(far), own.relay.address.port()).into();
        let last = Relay::on(address, &own.cluster.address);
        own.relay.set(Way::Closed);
        healthy_throughout(&process, || stage.lives(&process));
        assert!(last.traffic().connections > 0);
        ends(&mut process);
    });
}

#[test]
fn name_with_an_ipv6_address_alone_is_reached() {
    let has_it = fs::read_to_string("/proc/net/if_inet6").is_ok_and(|all| all.contains(" lo\n"));
    if needs(Need::Found(has_it), "there is no IPv6 here") {
        named("six", &Answer::Records(vec![HERE], vec![]), |stage, names, mut process| {
            stage.settle(&process);
            let own = stage.own();
            let port = own.relay.address.port();
            let six = Relay::on((Ipv6Addr::LOCALHOST, port).into(), &own.cluster.address);
            // The cluster moves while the program runs.
            own.relay.set(Way::Closed);
            names.say(Answer::Records(vec![], vec![HERE_6]));
            healthy_throughout(&process, || stage.lives(&process));
            assert!(six.traffic().connections > 0);
            ends(&mut process);
        });
    }
}
