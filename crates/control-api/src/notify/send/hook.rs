//! Programs that receive messages as JSON on standard input.

use serde_json::Value;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a program; then it is killed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Interval of the checks for its end.
const LOOK: Duration = Duration::from_millis(20);

/// Runs a program, or all programs of a folder in the order of their names. All must exit with 0.
pub(super) async fn run(path: &str, message: &Value) -> Result<(), String> {
    let (path, input) = (PathBuf::from(path), message.to_string());
    let code = message["code"].as_str().unwrap_or_default().to_owned();
    let work =
        move || programs(&path)?.iter().try_for_each(|program| run_one(program, &code, &input));
    tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())?
}

/// The program, or the executable files of the folder. Only root and this user may have write
/// permission.
fn programs(path: &Path) -> Result<Vec<PathBuf>, String> {
    let failed = |path: &Path, why: String| format!("{}: {why}", path.display());
    let is_folder =
        std::fs::metadata(path).map_err(|error| failed(path, error.to_string()))?.is_dir();
    let mut all = vec![path.to_owned()];
    if is_folder {
        let entries = std::fs::read_dir(path).map_err(|error| failed(path, error.to_string()))?;
        let entries: std::io::Result<Vec<_>> = entries.collect();
        let entries = entries.map_err(|error| failed(path, error.to_string()))?;
        all = entries.iter().map(std::fs::DirEntry::path).collect();
        all.sort();
    }
    let own = rustix::process::geteuid().as_raw();
    let mut programs = Vec::new();
    for program in all {
        let meta =
            std::fs::metadata(&program).map_err(|error| failed(&program, error.to_string()))?;
        let mode = meta.permissions().mode();
        if !meta.is_file() || mode & 0o100 == 0 {
            if is_folder {
                continue;
            }
            return Err(failed(&program, "it is not executable; run 'chmod u+x'".to_owned()));
        }
        if mode & 0o022 != 0 || (meta.uid() != 0 && meta.uid() != own) {
            let why = "other users may write to it; run 'chown root' and 'chmod go-w'";
            return Err(failed(&program, why.to_owned()));
        }
        programs.push(program);
    }
    Ok(programs)
}

fn run_one(program: &Path, code: &str, input: &str) -> Result<(), String> {
    let failed = |why: String| format!("{}: {why}", program.display());
    let mut child = Command::new(program)
        .arg(code)
        .env_clear()
        .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // The message fits into the pipe, so the write does not block. The program need not read
        // it.
        match stdin.write_all(input.as_bytes()) {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                tracing::warn!("{}: it did not read the whole message: {error}", program.display());
            }
            _ => {}
        }
    }
    wait(&mut child).map_err(failed)
}

fn wait(child: &mut Child) -> Result<(), String> {
    let since = Instant::now();
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => return Err(format!("it exited with {status}")),
            None if since.elapsed() < PATIENCE => std::thread::sleep(LOOK),
            None => {
                child
                    .kill()
                    .and_then(|()| child.wait().map(|_| ()))
                    .map_err(|error| error.to_string())?;
                return Err(format!("it was killed after {} s", PATIENCE.as_secs()));
            }
        }
    }
}
