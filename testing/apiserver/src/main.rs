//! `dev-apiserver`: the in-memory API server as a standalone process, to explore with kubectl.

use std::{error::Error, fs, path::PathBuf, time::Duration};

use dev_apiserver::{Options, Server};
use lexopt::prelude::{Long, Short, ValueExt};
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

const HELP: &str = "\
In-memory Kubernetes API server for tests and demos

Usage: dev-apiserver [OPTIONS]

      --port N                 Port on 127.0.0.1 (default: any free one)
      --control-port N         Also serve the control interface, on this port
      --write-kubeconfig FILE  Write the admin kubeconfig to FILE instead of printing it
      --plain                  Plain HTTP instead of TLS
      --auto-approve           Approve every CSR for kubernetes.io/kube-apiserver-client
      --lifetime SECONDS       Longest validity of signed certificates (default: one year)
      --backdate SECONDS       Start signed certificates this far in the past (default: 300)
  -h, --help                   Show this help
";

struct Arguments {
    options: Options,
    kubeconfig: Option<PathBuf>,
    help: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = parse()?;
    if arguments.help {
        print!("{HELP}");
        return Ok(());
    }
    // Registered before the server starts, so that no signal is missed.
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let server = Server::start(arguments.options)?;
    match arguments.kubeconfig {
        Some(path) => {
            fs::write(&path, server.kubeconfig())?;
            println!("{}", path.display());
        }
        None => println!("{}", server.kubeconfig()),
    }
    eprintln!("serving on {}", server.url());
    if let Some(address) = server.control_address() {
        eprintln!("control interface on http://{address}");
    }
    signals.forever().next();
    Ok(())
}

fn parse() -> Result<Arguments, lexopt::Error> {
    let mut arguments = Arguments { options: Options::default(), kubeconfig: None, help: false };
    let options = &mut arguments.options;
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("port") => options.port = parser.value()?.parse()?,
            Long("control-port") => options.control_port = Some(parser.value()?.parse()?),
            Long("write-kubeconfig") => arguments.kubeconfig = Some(parser.value()?.into()),
            Long("plain") => options.tls = false,
            Long("auto-approve") => options.signer.auto_approve = true,
            Long("lifetime") => options.signer.lifetime = seconds(&mut parser)?,
            Long("backdate") => options.signer.backdate = seconds(&mut parser)?,
            Short('h') | Long("help") => arguments.help = true,
            _ => return Err(argument.unexpected()),
        }
    }
    Ok(arguments)
}

fn seconds(parser: &mut lexopt::Parser) -> Result<Duration, lexopt::Error> {
    Ok(Duration::from_secs(parser.value()?.parse()?))
}
