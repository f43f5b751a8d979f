//! Help in one line per option and command, within the width of the terminal. The man pages have
//! the complete texts.

use crate::output::{width, wrapped};
use clap::{Arg, Command};

/// The columns of a page without a terminal.
const PAGE: usize = 80;

/// The widest column of names; a longer name shifts its own line.
const WIDEST: usize = 30;

/// The shortest part of a sentence that stands alone.
const SHORTEST: usize = 12;

/// The marks at which a sentence may end early, the best first.
const ENDS: [&str; 4] = ["; ", ": ", " (", ", "];

/// A command with short help, and its subcommands too.
pub fn in_lines(command: Command) -> Command {
    let columns = width().map_or(PAGE, usize::from);
    all_in_lines(command, columns)
}

fn all_in_lines(command: Command, columns: usize) -> Command {
    let names: Vec<String> =
        command.get_subcommands().map(|one| one.get_name().to_owned()).collect();
    let mut command = names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |subcommand| all_in_lines(subcommand, columns))
    });
    let text = page(&mut command, columns);
    command.override_help(text)
}

/// The help of a command.
fn page(command: &mut Command, columns: usize) -> String {
    let usage = command.render_usage().to_string();
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut parts = vec![wrapped(&about, columns).join("\n"), usage.trim_end().to_owned()];
    let commands: Vec<(String, String)> = command
        .get_subcommands()
        .filter(|one| !one.is_hide_set())
        .map(|one| {
            (
                one.get_name().to_owned(),
                one.get_about().map(ToString::to_string).unwrap_or_default(),
            )
        })
        .collect();
    parts.extend(section("Commands", &commands, columns));
    let shown = |arg: &&Arg| !arg.is_hide_set();
    let entry = |arg: &Arg| (name(arg), text(arg));
    let operands: Vec<(String, String)> =
        command.get_positionals().filter(shown).map(entry).collect();
    parts.extend(section("Arguments", &operands, columns));
    let options: Vec<(String, String)> = command
        .get_arguments()
        .filter(|arg| !arg.is_positional())
        .filter(shown)
        .map(entry)
        .collect();
    parts.extend(section("Options", &options, columns));
    let more = command.get_after_help().map(ToString::to_string);
    parts.extend(more.map(|more| {
        more.lines().flat_map(|line| wrapped(line, columns)).collect::<Vec<_>>().join("\n")
    }));
    parts.push(format!("Complete texts: man {}", command.get_display_name().unwrap_or("softroc")));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// A heading and a line for each entry. `None`: there are none.
fn section(heading: &str, entries: &[(String, String)], columns: usize) -> Option<String> {
    let most = entries.iter().map(|(name, _)| name.chars().count()).max()?;
    let most = most.min(WIDEST);
    let line = |(name, text): &(String, String)| {
        let taken = 2 + name.chars().count().max(most) + 2;
        format!("  {name:most$}  {}", brief(text, columns.saturating_sub(taken)))
            .trim_end()
            .to_owned()
    };
    let lines: Vec<String> = entries.iter().map(line).collect();
    Some(format!("{heading}:\n{}", lines.join("\n")))
}

/// An option or operand as in a usage line.
fn name(arg: &Arg) -> String {
    let names = arg.get_value_names().unwrap_or_default();
    let values: Vec<String> = names.iter().map(|name| format!("<{name}>")).collect();
    let values = if arg.get_action().takes_values() { values.join(" ") } else { String::new() };
    let values = match arg.get_num_args().is_some_and(|most| most.max_values() > 1) {
        true => format!("{values}..."),
        false => values,
    };
    let short = arg.get_short().map(|short| format!("-{short}, "));
    match arg.get_long() {
        Some(long) => {
            format!("{}--{long} {values}", short.unwrap_or_default()).trim_end().to_owned()
        }
        None => values,
    }
}

/// The help of an option, with its default.
fn text(arg: &Arg) -> String {
    if arg.get_id() == "help" {
        return "Print help".to_owned();
    }
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let values: Vec<_> =
        arg.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
    let is_value =
        arg.get_action().takes_values() && !values.is_empty() && !arg.is_hide_default_value_set();
    if is_value { format!("{help} [default: {}]", values.join(" ")) } else { help }
}

/// As much of a help text as fits one line: all of it, its first sentence, or a part of that; and
/// the default value, if there is space left.
fn brief(text: &str, room: usize) -> String {
    let (start, rest) = text.split_once(" [default: ").unwrap_or((text, ""));
    let (value, end) = rest.split_once(']').unwrap_or((rest, ""));
    let whole = format!("{start}{end}");
    let first = whole.split_once(". ").map_or(whole.as_str(), |(first, _)| first);
    let fits = |part: &str| part.chars().count() <= room;
    let shorter = |mark: &&str| {
        let ends = first.match_indices(*mark).map(|(at, _)| &first[..at]);
        ends.filter(|part| fits(part) && part.chars().count() >= SHORTEST).last()
    };
    let all = whole.trim_end_matches('.');
    let parts = [all, first.trim_end_matches('.')].into_iter().find(|part| fits(part));
    let part = parts.or_else(|| ENDS.iter().find_map(shorter)).unwrap_or(first);
    let default = format!("{part} [default: {value}]");
    if !value.is_empty() && fits(&default) { default } else { part.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;

    #[test]
    fn a_text_is_cut_at_the_end_of_a_thought() {
        let text = "The size of the cache, in memory; 0 for none. It is allocated later [default: \
            4 GiB]";
        for (room, line) in [
            (
                90,
                "The size of the cache, in memory; 0 for none. It is allocated later [default: 4 \
                GiB]",
            ),
            (64, "The size of the cache, in memory; 0 for none [default: 4 GiB]"),
            (60, "The size of the cache, in memory; 0 for none"),
            (40, "The size of the cache, in memory"),
            (30, "The size of the cache"),
        ] {
            assert_eq!(brief(text, room), line, "{room}");
        }
    }

    fn too_long(command: &Command, found: &mut Vec<String>) {
        let mut command = command.clone();
        let text = page(&mut command, PAGE);
        let usage = command.render_usage().to_string();
        let is_long = |line: &&str| line.chars().count() > PAGE && !usage.contains(line.trim());
        found.extend(
            text.lines().filter(is_long).map(|line| format!("{}: {line}", command.get_name())),
        );
        command.get_subcommands().for_each(|one| too_long(one, found));
    }

    #[test]
    fn each_option_of_each_command_has_one_line_of_80_columns() {
        let mut found = Vec::new();
        too_long(&Cli::shaped(), &mut found);
        assert!(found.is_empty(), "{}", found.join("\n"));
        let help = |words: &[&str]| {
            Cli::parsed(words.iter().map(std::ffi::OsString::from).collect())
                .expect_err("help")
                .to_string()
        };
        let serve = help(&["softroc", "serve", "--help"]);
        assert_eq!(serve, help(&["softroc", "serve", "-h"]));
        assert!(serve.lines().count() < 60 && serve.contains("\n  --nbd <ADDR>"), "{serve}");
    }
}
