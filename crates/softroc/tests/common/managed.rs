//! A controller that is managed over the network.

use super::{Controller, softroc};
use std::process::{Command, Stdio};

/// A controller with a management port, and the password from its first start.
pub struct Managed {
    pub controller: Controller,
    pub address: String,
    pub fingerprint: String,
    pub password: String,
}

/// The text between two others.
pub fn between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    let (_, rest) = text.split_once(before).unwrap_or_else(|| panic!("no '{before}' in {text}"));
    rest.split(after).next().unwrap_or_default()
}

/// The management address, from the log of the last start.
pub fn address(log: &str) -> String {
    let last = log.rsplit("management at ").next().unwrap_or_default();
    last.split(';').next().unwrap_or_default().to_owned()
}

pub fn managed(name: &str, more: &[&str]) -> Managed {
    let mut arguments = vec!["--manage", "127.0.0.1:0"];
    arguments.extend(more);
    let controller = Controller::with(name, &arguments);
    let log = controller.log();
    let address = address(&log);
    let fingerprint = between(&log, "its certificate's SHA-256 is ", "\n").to_owned();
    let file = format!("{}/first-password", controller.state());
    let password = std::fs::read_to_string(file).expect("the first password").trim_end().to_owned();
    Managed { controller, address, fingerprint, password }
}

impl Managed {
    /// Runs a line in a shell that keeps exported variables of earlier lines.
    pub fn shell(&self, line: &str) -> String {
        let programs =
            std::path::Path::new(env!("CARGO_BIN_EXE_softroc")).parent().expect("a folder");
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let kept = format!("test -f exported && . ./exported; {line}\nexport -p >exported");
        let output = Command::new("sh")
            .args(["-c", &kept])
            .current_dir(&self.controller.folder.0)
            .env("PATH", path)
            .stdin(Stdio::null())
            .output()
            .expect("a shell");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Runs the command line over the network, with a token.
    pub fn remote(&self, token: &str, arguments: &[&str]) -> super::Answer {
        let mut all = arguments.to_vec();
        all.extend([
            "--server",
            &self.address,
            "--fingerprint",
            &self.fingerprint,
            "--token",
            token,
        ]);
        softroc(&all)
    }

    /// A new account with its own password, and the token of a session.
    pub fn account(&self, name: &str, role: &str) -> String {
        let add = format!(
            "echo 'secret of {name}' | softroc account add {name} --role {role} --password-stdin"
        );
        self.shell(&format!("{add} --state {}", self.controller.state()));
        self.sign_in(name)
    }

    pub fn sign_in(&self, name: &str) -> String {
        let address = format!("--server {} --fingerprint {}", self.address, self.fingerprint);
        self.shell(&format!("echo 'secret of {name}' | softroc account login {name} {address}"))
            .trim()
            .to_owned()
    }

    /// The result of curl, which trusts the certificate by its file: the status, and the body.
    pub fn curl(&self, arguments: &str, path: &str) -> (String, String) {
        let certificate = format!("{}/manage-certificate.pem", self.controller.state());
        let (address, options) = (&self.address, "-s -w '%{http_code}'");
        let said = self
            .shell(&format!("curl {options} --cacert {certificate} {arguments} '{address}{path}'"));
        let (body, status) = said.split_at(said.len().saturating_sub(3));
        (status.to_owned(), body.to_owned())
    }
}
