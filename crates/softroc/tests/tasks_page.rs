//! The page of an administrator's tasks: every command on it is run, in the order of the page.

mod common;

use common::{Controller, Folder};
use std::path::Path;

/// The commands of the page that are refused in this story, and what the refusal says.
const REFUSED: &[(&str, &str)] = &[
    ("softroc task pause NUMBER", "no task 999"),
    ("softroc task resume NUMBER", "no task 999"),
    ("softroc volume start data --degraded", "is started already"),
    ("softroc volume forget data --yes", "is not missing"),
    ("softroc foreign import old", "old"),
    ("softroc rescue /dev/sdg", "no array"),
    ("softroc cache remove FILE", "there is no memory FILE"),
];

/// The commands in the second column of the page, in order.
fn commands(page: &str) -> Vec<String> {
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(2);
    let cells = rows.filter_map(|row| row.split(" | ").nth(1));
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .filter(|command| command.starts_with("softroc "))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_of_the_page_does_what_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/tasks.md");
    let commands = commands(&std::fs::read_to_string(page).expect("the page"));
    assert!(commands.len() > 30, "{commands:?}");
    // Where there is no such memory, the commands do as well: the volume stays write-through.
    let memory = Folder::in_memory("tasks-page").unwrap_or_else(|| Folder::new("tasks-page-cache"));
    let with = ["--cache", "16M", "--cache-folder", &memory.path()];
    let controller = Controller::with("tasks-page", &with);
    for letter in 'b'..='h' {
        let file = std::fs::File::create(controller.folder.file(&format!("sd{letter}"))).expect("a file");
        file.set_len(64 << 20).expect("a size");
    }
    let at = controller.folder.file("sd");
    for command in &commands {
        let typed = command.replace("/dev/sd", &at).replace("NUMBER", "999");
        let typed = typed.replace("saved.toml", &controller.folder.file("saved.toml"));
        let arguments: Vec<&str> = typed.split(' ').skip(1).collect();
        let answer = controller.softroc(&arguments);
        let said = format!("{}{}", answer.stdout, answer.stderr);
        match REFUSED.iter().find(|(refused, _)| refused == command) {
            Some((_, why)) => {
                assert!(
                    answer.code != 0 && said.contains(why),
                    "{command} ended with {}: {said}",
                    answer.code
                );
            }
            None => assert_eq!(answer.code, 0, "{command}: {said}"),
        }
        // What follows is told of a volume that is well, and of which no task is left.
        let begins_something = command.contains("softroc drive ") || command.contains("task start");
        let leaves_it_out = ["clear-failed", "offline", "suspend"].iter().any(|verb| command.contains(verb));
        if begins_something && !leaves_it_out {
            let is_there = controller.softroc(&["volume", "show", "data"]).code == 0;
            if is_there {
                controller.wait_optimal("data");
            }
        }
    }
}
