//! The pages for operators and planners: all their commands run, with the output shown.
//!
//! All ```` ```console ```` blocks of a page are one session of bash in an empty folder. `$ `
//! starts a command, and the lines below are its output; `…` matches any text, a line of `…` any
//! lines. After a command that ends in `&`, the test waits until the controller responds. Blocks of
//! `console-root` run as root where the kernel has NBD. Blocks of `console-other` need other hosts
//! or hardware: their softroc commands are only checked for existence.

mod common;

use common::{Folder, have, not_possible};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Documents outside these folders that show commands.
const ALONE: &[&str] = &["README.md", "docs/formats/http-api.md"];

const SOFTROC: &str = env!("CARGO_BIN_EXE_softroc");

const FOLDERS: &[&str] = &["docs/operate", "docs/plan"];

/// The number of concurrent pages: they mostly wait.
const AT_ONCE: usize = 3;

/// A command of a page.
#[derive(PartialEq, Eq, Debug)]
struct Example {
    block: String,
    command: String,
    output: Vec<String>,
}

#[test]
fn every_command_of_the_documents_prints_what_is_shown() {
    if !have("bash") {
        return;
    }
    let pages = Mutex::new(pages());
    let different = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(page) = pages.lock().expect("no page panics").pop() else { break };
                    let found = run_page(&page);
                    different.lock().expect("no page panics").extend(found);
                }
            });
        }
    });
    let different = different.into_inner().expect("no page panics");
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[test]
fn output_is_compared_line_by_line() {
    let shown = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
    for (printed, expected) in
        [("a 12 b\n", "a … b"), ("x\na\nb\n", "…\nb"), ("b\n", "…\nb"), ("", ""), ("a\n", "…")]
    {
        assert!(is_shown(printed, &shown(expected)), "{printed:?} {expected:?}");
    }
    for (printed, expected) in
        [("a b\n", "a"), ("a\nb\n", "a"), ("a\n", "a\n…\nb"), ("", "a"), ("ab\n", "a…c")]
    {
        assert!(!is_shown(printed, &shown(expected)), "{printed:?} {expected:?}");
    }
}

#[test]
fn examples_are_found() {
    let text = "text\n```console\n$ one \\\n  two\nout\n$ three\n```\n\
        ```text\n$ no\n```\n```console-other\n$ four\n```\n";
    let example = |block: &str, command: &str, output: &[&str]| Example {
        block: block.to_owned(),
        command: command.to_owned(),
        output: output.iter().map(ToString::to_string).collect(),
    };
    assert_eq!(
        examples(text),
        [
            example("console", "one \\\n  two", &["out"]),
            example("console", "three", &[]),
            example("console-other", "four", &[])
        ]
    );
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn pages() -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = ALONE.iter().map(|name| root().join(name)).collect();
    for folder in FOLDERS {
        let entries = std::fs::read_dir(root().join(folder)).expect("a folder of documents");
        pages.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    pages.retain(|page| page.extension().is_some_and(|end| end == "md"));
    pages.sort();
    pages
}

fn examples(text: &str) -> Vec<Example> {
    let (mut examples, mut block): (Vec<Example>, Option<String>) = (Vec::new(), None);
    for line in text.lines() {
        if let Some(fence) = line.strip_prefix("```") {
            block = fence.starts_with("console").then(|| fence.trim().to_owned());
            continue;
        }
        let Some(block) = &block else { continue };
        if let Some(command) = line.strip_prefix("$ ") {
            let (block, command) = (block.clone(), command.to_owned());
            examples.push(Example { block, command, output: Vec::new() });
        } else if let Some(last) = examples.last_mut() {
            if last.output.is_empty() && last.command.ends_with('\\') {
                last.command = format!("{}\n{line}", last.command);
            } else {
                last.output.push(line.trim_end().to_owned());
            }
        }
    }
    examples
}

/// Whether the output matches the shown one.
fn is_shown(printed: &str, shown: &[String]) -> bool {
    let lines: Vec<&str> = printed.lines().map(str::trim_end).collect();
    matches_lines(&lines, shown)
}

fn matches_lines(lines: &[&str], shown: &[String]) -> bool {
    match (lines, shown) {
        ([], []) => true,
        (_, [any, rest @ ..]) if any.trim() == "…" => {
            (0..=lines.len()).any(|skipped| matches_lines(&lines[skipped..], rest))
        }
        ([line, lines @ ..], [expected, rest @ ..]) => {
            matches_line(line, expected) && matches_lines(lines, rest)
        }
        _ => false,
    }
}

fn matches_line(line: &str, expected: &str) -> bool {
    let mut parts = expected.split('…');
    let Some(mut rest) = parts.next().and_then(|start| line.strip_prefix(start)) else {
        return false;
    };
    let parts: Vec<&str> = parts.collect();
    let Some((end, middle)) = parts.split_last() else { return rest.is_empty() };
    for part in middle {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(end)
}

/// Runs a page. Returns differences of the output.
fn run_page(page: &Path) -> Vec<String> {
    let name = page.strip_prefix(root()).unwrap_or(page).display().to_string();
    let text = std::fs::read_to_string(page).unwrap_or_else(|error| panic!("{name}: {error}"));
    let examples = examples(&text);
    if examples.is_empty() {
        return Vec::new();
    }
    let mut session = Session::new(&page.file_stem().unwrap_or_default().to_string_lossy());
    let mut different = Vec::new();
    for Example { block, command, output } in examples {
        match block.as_str() {
            "console" => {}
            "console-root" if can_attach() => {}
            "console-root" => {
                not_possible(&name, "root and the kernel's NBD are needed");
                continue;
            }
            _ => {
                let unknown = unknown_commands(&command);
                different.extend(
                    unknown.into_iter().map(|what| format!("{name}: there is no '{what}'")),
                );
                continue;
            }
        }
        let printed = session.run(&command);
        if !is_shown(&printed, &output) {
            let shown = output.join("\n");
            different
                .push(format!("{name}: $ {command}\n--- shown\n{shown}\n--- printed\n{printed}"));
        }
    }
    different
}

fn can_attach() -> bool {
    rustix::process::geteuid().is_root() && Path::new("/sys/block/nbd0").exists()
}

/// Commands of softroc in a line that do not exist.
fn unknown_commands(command: &str) -> Vec<String> {
    let mut unknown = Vec::new();
    for part in command.split(['|', ';', '&', '\n']) {
        let mut words =
            part.split_whitespace().skip_while(|word| *word == "sudo" || word.contains('='));
        if words.next() != Some("softroc") {
            continue;
        }
        let is_name = |word: &&str| {
            !word.starts_with('-') && word.chars().all(|c| c.is_ascii_lowercase() || c == '-')
        };
        let Some(first) = words.next().filter(is_name) else { continue };
        let is_there = |names: &[&str]| {
            let output = Command::new(SOFTROC).args(names).arg("--help").output();
            output.expect("softroc starts").status.success()
        };
        if !is_there(&[first]) {
            unknown.push(format!("softroc {first}"));
        }
    }
    unknown
}

/// A session of bash in its own folder. All its processes end with it.
struct Session {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    _folder: Folder,
}

const END: &str = "=-= end of a command";

impl Session {
    fn new(name: &str) -> Session {
        let folder = Folder::new(&format!("page-{name}"));
        let [programs, work] = ["bin", "work"].map(|name| folder.0.join(name));
        std::fs::create_dir_all(&programs).expect("a folder");
        std::fs::create_dir_all(&work).expect("a folder");
        std::os::unix::fs::symlink(SOFTROC, programs.join("softroc")).expect("a link");
        let path = std::env::var("PATH").unwrap_or_default();
        let mut bash = Command::new("bash");
        bash.arg("--norc")
            .current_dir(&work)
            .env("PATH", format!("{}:{path}", programs.display()))
            .env("HOME", &folder.0)
            // What a program runs in `$SHELL` works in every shell.
            .envs([("NO_COLOR", "1"), ("LC_ALL", "C.UTF-8"), ("SHELL", "/bin/sh")])
            .env_remove("SOFTROC_STATE")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0);
        let mut child = bash.spawn().expect("bash starts");
        let mut input = child.stdin.take().expect("piped");
        writeln!(input, "exec 2>&1").expect("bash reads");
        let output = BufReader::new(child.stdout.take().expect("piped"));
        Session { child, input, output, _folder: folder }
    }

    /// The output of a command.
    fn run(&mut self, command: &str) -> String {
        let command = match command.trim_end().strip_suffix('&') {
            None => command.to_owned(),
            Some(start) => format!(
                "{start} >>serve.log 2>&1 </dev/null &\nfor i in $(seq 600); do softroc drive list \
                    >/dev/null 2>&1 && break; sleep 0.1; done"
            ),
        };
        writeln!(self.input, "{{ {command}\n}} </dev/null\necho '{END}'").expect("bash reads");
        let mut printed = String::new();
        loop {
            let mut line = String::new();
            if self.output.read_line(&mut line).expect("bash writes") == 0 {
                return format!("{printed}(the shell ended)\n");
            }
            if let Some(rest) = line.trim_end().strip_suffix(END) {
                return format!("{printed}{rest}");
            }
            printed.push_str(&line);
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let group = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::TERM);
        let _ = self.child.wait();
        // The controller removes its cache memory.
        for _ in 0..200 {
            if rustix::process::test_kill_process_group(group).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}
