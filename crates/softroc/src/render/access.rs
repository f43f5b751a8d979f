//! Accounts as text.

use crate::output::table;
use access::AccountInfo;
use control_api::AccessReply;

/// A reply about accounts.
pub fn reply(reply: &AccessReply) -> String {
    match reply {
        AccessReply::Accounts { accounts } if accounts.is_empty() => {
            "No accounts: add one with 'softroc account add NAME --role ROLE'.".to_owned()
        }
        AccessReply::Accounts { accounts } => list(accounts),
        AccessReply::Account { account, password: None } => list(std::slice::from_ref(account)),
        AccessReply::Account { account, password: Some(password) } => format!(
            "{}\nPassword of '{}' (shown this once; must be changed): {password}",
            list(std::slice::from_ref(account)),
            account.name
        ),
        AccessReply::Session { token, .. } => token.clone(),
        AccessReply::Done { notes } => notes.join("\n"),
    }
}

fn list(accounts: &[AccountInfo]) -> String {
    let row = |account: &AccountInfo| {
        let state = match (account.enabled, account.locked_s) {
            (false, _) => "disabled".to_owned(),
            (true, Some(left)) => {
                format!("locked for {left} s for {}", account.locked_from.join(", "))
            }
            (true, None) if account.must_change => "password must be changed".to_owned(),
            (true, None) => "enabled".to_owned(),
        };
        vec![account.name.clone(), account.role.to_string(), state]
    };
    let rows: Vec<Vec<String>> = accounts.iter().map(row).collect();
    table(&["account", "role", "state"], &rows, &[false, false, false])
}
