//! The alternate screen of a terminal, restored afterwards.

use super::view::Page;
use crate::failure::{Failure, Outcome};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetwinsize, tcsetattr,
};
use std::io::{IsTerminal, Write, stdin, stdout};
use std::time::{Duration, Instant};
use units::printable_lines;

/// Enters the alternate screen, without a cursor.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
/// Returns to the main screen, with its cursor.
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

/// See the [module](self).
pub struct Screen {
    before: Termios,
}

impl Screen {
    /// Takes the terminal; `None`: standard input or output is not a terminal.
    ///
    /// # Errors
    /// If its mode cannot be set.
    pub fn take() -> Outcome<Option<Screen>> {
        if !stdin().is_terminal() || !stdout().is_terminal() {
            return Ok(None);
        }
        let before = tcgetattr(stdin()).map_err(failed)?;
        let mut keys = before.clone();
        // Keys arrive at once and without echo. Ctrl-C stays a signal.
        keys.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        keys.special_codes[SpecialCodeIndex::VMIN] = 0;
        keys.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Now, &keys).map_err(failed)?;
        let screen = Screen { before };
        write(ENTER)?;
        Ok(Some(screen))
    }

    /// Shows as much of a text as fits.
    pub fn show(&self, text: &str) -> Outcome {
        let Page { rows, columns } = page();
        let mut page = String::from("\x1b[H");
        // Filtered: only this module sends control sequences.
        for line in printable_lines(text).lines().take(rows) {
            page.extend(line.chars().take(columns.into()));
            page.push_str("\x1b[K\r\n");
        }
        // The last line end would scroll the screen.
        page.truncate(page.len().saturating_sub(2));
        page.push_str("\x1b[J");
        write(&page)
    }

    /// Waits for a time, or until a key that ends the view; returns whether one was pressed.
    pub fn wait_for_end(&self, time: Duration, is_over: impl Fn() -> bool) -> Outcome<bool> {
        let deadline = Instant::now() + time;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || is_over() {
                return Ok(false);
            }
            let left = Timespec::try_from(left.min(Duration::from_millis(200))).map_err(failed)?;
            let input = stdin();
            match poll(&mut [PollFd::new(&input, PollFlags::IN)], Some(&left)) {
                Ok(0) | Err(Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(failed(error)),
            }
            let mut keys = [0; 16];
            let read = rustix::io::read(&input, &mut keys).map_err(failed)?;
            // A closed terminal returns end of file permanently.
            if read == 0 || keys[..read].iter().any(|key| matches!(key, b'q' | b'Q' | 3 | 4)) {
                return Ok(true);
            }
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // Errors of a closed terminal are ignored.
        let _ = write(LEAVE);
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

/// The size of the terminal.
pub fn page() -> Page {
    match tcgetwinsize(stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => {
            Page { rows: size.ws_row.into(), columns: size.ws_col }
        }
        _ => Page { rows: 24, columns: 80 },
    }
}

fn write(text: &str) -> Outcome {
    let mut out = stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(failed)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::failed(format!(
        "cannot use the terminal: {error}; 'softroc top | cat' shows plain lines"
    ))
}
