//! A picture of a controller: what one answered once to `metrics`, `events-list` and `foreign-list` (`softroc --json` and the
//! control socket print the same): a RAID 6 that is without a drive, a RAID 10 of two spans, spares, and a task. What is foreign
//! was on other drives.

use controller::{Command, Error, ErrorKind, Reply};
use storcli::{Machine, Output, Program, Surroundings};

fn kept(text: &str) -> Reply {
    serde_json::from_str(text).expect("a controller wrote it")
}

/// The picture, and what was asked of it that it does not show.
#[derive(Default)]
pub struct Picture {
    pub asked: Vec<Command>,
    pub refuses: Option<ErrorKind>,
    /// The drive that is offline is suspended instead.
    pub suspended: bool,
    pub written: Vec<(String, String)>,
}

impl Machine for Picture {
    fn ask(&mut self, command: &Command) -> controller::Result<Reply> {
        match (command, self.refuses) {
            (Command::Metrics {}, _) => {
                let text = include_str!("../picture/metrics.json");
                Ok(match self.suspended {
                    true => kept(&text.replace("\"offline\"", "\"suspended\"")),
                    false => kept(text),
                })
            }
            (Command::EventsList { .. }, _) => Ok(kept(include_str!("../picture/events.json"))),
            (Command::ForeignList {}, _) => Ok(kept(include_str!("../picture/foreign.json"))),
            (other, None) => {
                self.asked.push(other.clone());
                Ok(Reply::Done { notes: Vec::new() })
            }
            (_, Some(kind)) => Err(Error::new(kind, "the controller says no")),
        }
    }

    fn read(&mut self, path: &str) -> Result<String, String> {
        let file = self.written.iter().find(|(name, _)| name == path);
        file.map(|(_, text)| text.clone()).ok_or_else(|| format!("there is no {path}"))
    }

    fn write(&mut self, path: &str, text: &str) -> Result<(), String> {
        self.written.push((path.to_owned(), text.to_owned()));
        Ok(())
    }
}

pub fn around(program: Program) -> Surroundings {
    Surroundings {
        program,
        host_name: "host".into(),
        operating_system: "Linux 6.1.0".into(),
        now_unix_s: 1_795_388_462,
        temperature_c: Some(45),
        memory_bytes: 2 << 30,
        memory_errors: (0, 0),
    }
}

impl Picture {
    pub fn run(&mut self, line: &str) -> Output {
        self.run_as(Program::StorCli, line)
    }

    pub fn run_as(&mut self, program: Program, line: &str) -> Output {
        let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        storcli::run(&words, &around(program), self)
    }
}
