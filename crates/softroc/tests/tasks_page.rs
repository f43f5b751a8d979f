//! The page that compares an administrator's tasks: its commands run, in the order of the page.

mod common;

use common::{Controller, Folder};
use std::path::Path;

/// Commands that are refused in the story of the page, and a part of the refusal.
const REFUSED: &[(&str, &str)] = &[
    ("drive locate sdb", "is in no enclosure"),
    ("task pause NUMBER", "no task 999"),
    ("volume start home --degraded", "is started already"),
    ("foreign import old", "old"),
];

/// SoftROC's commands on the page, without `softroc`: the list item that creates the volume, and
/// the second column of the tables with five columns.
fn commands(page: &str) -> Vec<String> {
    let cells = page.lines().filter_map(|line| match line.strip_prefix("- SoftROC: ") {
        Some(item) => Some(item),
        None if line.starts_with("| ") && line.matches(" | ").count() == 4 => {
            line.split(" | ").nth(1)
        }
        None => None,
    });
    cells
        .flat_map(|cell| cell.split('`').skip(1).step_by(2))
        .map(|command| command.strip_prefix("softroc ").unwrap_or(command).to_owned())
        .collect()
}

#[test]
fn every_command_of_the_page_does_what_it_says() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operate/tasks.md");
    let commands = commands(&std::fs::read_to_string(page).expect("the page"));
    assert!(commands.len() > 30, "{commands:?}");
    for (refused, _) in REFUSED {
        assert!(
            commands.iter().any(|command| command == refused),
            "'{refused}' is not on the page"
        );
    }
    // Without memory for the cache the commands succeed as well: the volume stays write-through.
    let memory = Folder::in_memory("tasks-page").unwrap_or_else(|| Folder::new("tasks-page-cache"));
    let with = ["--cache", "16M", "--cache-folder", &memory.path()];
    let controller = Controller::with("tasks-page", &with);
    let drives: Vec<String> = ('b'..='h').map(|letter| format!("sd{letter}")).collect();
    for drive in &drives {
        let file = std::fs::File::create(controller.folder.file(drive)).expect("a file");
        file.set_len(64 << 20).expect("a size");
    }
    for command in &commands {
        let typed: Vec<String> = command
            .split(' ')
            .map(|word| match word {
                "NUMBER" => "999".to_owned(),
                "saved.toml" => controller.folder.file(word),
                _ if drives.iter().any(|drive| drive == word) => controller.folder.file(word),
                _ => word.to_owned(),
            })
            .collect();
        let arguments: Vec<&str> = typed.iter().map(String::as_str).collect();
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
            // Its exit code is the state of this machine.
            None if command == "health" => assert!(answer.code <= 2, "{command}: {said}"),
            None => assert_eq!(answer.code, 0, "{command}: {said}"),
        }
        // The next command needs an optimal volume without an open task, unless this one took a
        // drive out for a while.
        let is_out =
            ["drive offline", "drive suspend"].iter().any(|begin| command.starts_with(begin));
        for volume in ["data", "home"] {
            if !is_out && controller.softroc(&["volume", "show", volume]).code == 0 {
                controller.wait_optimal(volume);
            }
        }
    }
}
