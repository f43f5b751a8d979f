//! Removes secrets from every text of a support bundle.
//!
//! The bundle contains no file for secrets; this removes secrets that strayed into other texts.
//! Secrets and names of the state folder are replaced wherever they occur. Web addresses lose the
//! part behind the host, which is often a key; all addresses lose user and password; lines that
//! show a password lose the rest.

use std::collections::BTreeSet;

/// The replacement text.
pub const LEFT_OUT: &str = "[left out]";

/// Shorter texts are no secrets, and would match everywhere.
const SHORTEST: usize = 4;

/// Shorter names are replaced only in quotes.
const SHORTEST_NAME: usize = 3;

/// The texts to remove.
#[derive(Default)]
pub struct Scrubber {
    secrets: BTreeSet<String>,
    names: BTreeSet<String>,
    people: BTreeSet<String>,
}

impl Scrubber {
    /// A secret: a password, a key, a community, a token, the hash of a password.
    pub fn secret(&mut self, secret: &str) {
        if secret.len() >= SHORTEST {
            self.secrets.insert(secret.to_owned());
            // Also in the escaped form of JSON.
            let escaped = serde_json::Value::from(secret).to_string();
            self.secrets.insert(escaped.trim_matches('"').to_owned());
        }
    }

    /// The name of an account, which becomes `account-1` and so on.
    pub fn name(&mut self, name: &str) {
        if !name.is_empty() {
            self.names.insert(name.to_owned());
        }
    }

    /// A person's address, or a word chosen by a user: replaced only as a whole word.
    pub fn person(&mut self, word: &str) {
        if word.len() >= SHORTEST {
            self.people.insert(word.to_owned());
        }
    }

    /// A text without secrets.
    pub fn clean(&self, text: &str) -> String {
        let mut text = text.to_owned();
        // The longest first: one may be part of another.
        let mut secrets: Vec<&String> = self.secrets.iter().collect();
        secrets.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
        for secret in secrets {
            text = text.replace(secret.as_str(), LEFT_OUT);
        }
        for (number, name) in (1..).zip(&self.names) {
            text = without_name(&text, name, &format!("account-{number}"));
        }
        for word in &self.people {
            text = without_name(&text, word, LEFT_OUT);
        }
        let lines: Vec<String> = text.split('\n').map(|line| addresses(&passwords(line))).collect();
        lines.join("\n")
    }
}

/// Whether a letter may be inside a name.
fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.')
}

/// The text with a name replaced as a whole word.
fn without_name(text: &str, name: &str, instead: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, after) = (&rest[..at], &rest[at + name.len()..]);
        let around =
            (before.chars().next_back().or(clean.chars().next_back()), after.chars().next());
        let is_quoted =
            matches!(around, (Some('\'' | '"'), Some('\'' | '"'))) || after.starts_with(" (at ");
        let ends = |letter: Option<char>| letter.is_none_or(|letter| !is_of_name(letter));
        let is_it = match name.len() < SHORTEST_NAME {
            true => is_quoted,
            // A name at the end of a sentence is followed by a full stop.
            false => ends(around.0) && (ends(around.1) || after.starts_with(". ") || after == "."),
        };
        clean.push_str(before);
        clean.push_str(if is_it { instead } else { name });
        rest = after;
    }
    clean.push_str(rest);
    clean
}

/// A line that shows a password, cut before it.
fn passwords(line: &str) -> String {
    let shows = line.contains("shown this once").then(|| line.rfind(": ")).flatten();
    match shows {
        Some(at) => format!("{}: {LEFT_OUT}", &line[..at]),
        None => line.to_owned(),
    }
}

/// A line whose addresses have no users or passwords, and web addresses nothing behind the host.
fn addresses(line: &str) -> String {
    let mut clean = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(at) = rest.find("://") {
        let scheme_at = rest[..at]
            .rfind(|c: char| !c.is_ascii_alphanumeric() && c != '+')
            .map_or(0, |at| at + 1);
        let scheme = rest[scheme_at..at].to_ascii_lowercase();
        let address = &rest[at + 3..];
        let ends = |c: char| {
            c.is_whitespace() || matches!(c, '"' | '\'' | '<' | '>' | ',' | ';' | ')' | '\\')
        };
        let (address, after) = address.split_at(address.find(ends).unwrap_or(address.len()));
        let (host, path) = address.split_at(address.find(['/', '?', '#']).unwrap_or(address.len()));
        let host =
            host.rsplit_once('@').map_or(host.to_owned(), |(_, host)| format!("{LEFT_OUT}@{host}"));
        clean.push_str(&rest[..at + 3]);
        clean.push_str(&host);
        let is_web = matches!(scheme.as_str(), "http" | "https" | "ws" | "wss");
        match is_web && path.len() > 1 {
            true => clean.push_str(&format!("/{LEFT_OUT}")),
            false => clean.push_str(path),
        }
        rest = after;
    }
    clean.push_str(rest);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_lose_who_and_what_is_behind_the_host_of_the_web() {
        for (line, clean) in [
            (
                "to https://hooks.example/services/T0/B0/xyz failed",
                "to https://hooks.example/[left out] failed",
            ),
            (
                "\"target\":\"https://u:p@h:8443/a?b=c\",",
                "\"target\":\"https://[left out]@h:8443/[left out]\",",
            ),
            (
                "smtp://post:geheim@mail:25 and nbd://h/data",
                "smtp://[left out]@mail:25 and nbd://h/data",
            ),
            ("metrics at http://127.0.0.1:9810/", "metrics at http://127.0.0.1:9810/"),
            ("no address: a//b", "no address: a//b"),
        ] {
            assert_eq!(Scrubber::default().clean(line), clean);
        }
    }

    #[test]
    fn secrets_go_wherever_they_stand_and_names_as_a_whole() {
        let mut scrubber = Scrubber::default();
        scrubber.secret("pa\"ss wort");
        scrubber.secret("abc");
        scrubber.name("ann");
        scrubber.name("op");
        let text = "x pa\"ss wort y {\"s\":\"pa\\\"ss wort\"} abc";
        assert_eq!(scrubber.clean(text), "x [left out] y {\"s\":\"[left out]\"} abc");
        let text =
            "ann (at 10.0.0.1:5) is no annex; 'op' may op, \"user\":\"ann\". By ann. ann.img";
        let clean = "account-1 (at 10.0.0.1:5) is no annex; 'account-2' may op, \
            \"user\":\"account-1\". By account-1. ann.img";
        assert_eq!(scrubber.clean(text), clean);
        let line = "Password of the account 'ann', shown this once, to be changed: K3-x\nnext";
        assert_eq!(
            scrubber.clean(line),
            "Password of the account 'account-1', shown this once, to be changed: [left out]\nnext"
        );
    }
}
