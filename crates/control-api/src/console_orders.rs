//! Executes submitted console forms: by the controller, the notifier, or the account store.

use crate::account_routes::made_password;
use crate::desk::AppState;
use crate::notify::office;
use access::{AccountChange, Action, Caller, Password};
use controller::{Command, Result};
use webconsole::{Channel, Order, Upkeep};

/// A title and a text to show once.
pub(crate) type OnceMessage = Option<(String, String)>;

/// Executes an action, if the caller has the permission. `owner` sees notes of the reply on the
/// next page.
///
/// # Errors
/// `Denied`, and the errors of the action.
pub(crate) async fn carry_out(
    desk: &AppState,
    caller: &Caller,
    owner: &str,
    order: &Order,
) -> Result<OnceMessage> {
    if !matches!(order, Order::Command(_)) {
        desk.may(caller, order.action(), "console")?;
    }
    let of = order.action();
    match order {
        Order::Command(command) => {
            let reply = desk.ask(caller, command.clone()).await?;
            desk.told_once.keep(owner, reply.notes());
        }
        Order::TestChannel(name) => office::test(desk, caller, name).await?,
        Order::RemoveChannel(name) => office::remove(desk, caller, name).await?,
        Order::AddAccount(name, role) => {
            let password = made_password()?;
            desk.keeper.add(&caller.named(), name, *role, &password, true).await?;
            return Ok(Some(once(name, &password)));
        }
        Order::NewPassword(name) => {
            let password = made_password()?;
            let change = AccountChange { must_change: Some(true), ..AccountChange::default() };
            desk.keeper.set(caller, name, change, Some(&password)).await?;
            return Ok(Some(once(name, &password)));
        }
        Order::EnableAccount(name, on) => {
            set(
                desk,
                caller,
                name,
                AccountChange { enabled: Some(*on), ..AccountChange::default() },
            )
            .await?;
        }
        Order::UnlockAccount(name) => {
            set(desk, caller, name, AccountChange { unlock: true, ..AccountChange::default() })
                .await?;
        }
        Order::SetRole(name, role) => {
            set(
                desk,
                caller,
                name,
                AccountChange { role: Some(*role), ..AccountChange::default() },
            )
            .await?;
        }
        Order::RemoveAccount(name) => desk.keeper.remove(&caller.named(), name).await?,
        Order::Measure(order) => {
            // A missing volume is reported at once; other errors are reported with the benchmark.
            desk.ask(caller, Command::VolumeShow { volume: order.volume.clone() }).await?;
            let measure = async { desk.workbench.measure(order, caller.named()) };
            desk.order((caller, of), ("benchmark", &order.volume), measure).await?;
        }
        Order::StopMeasuring => {
            let stop = async { desk.workbench.stop_measuring() };
            desk.order((caller, of), ("benchmark-stop", "controller"), stop).await?;
        }
        Order::Predict(order) => desk.workbench.predict(order)?,
        Order::StopPredicting => desk.workbench.stop_predicting()?,
    }
    Ok(None)
}

async fn set(desk: &AppState, caller: &Caller, name: &str, change: AccountChange) -> Result<()> {
    desk.keeper.set(caller, name, change, None).await.map(|_| ())
}

fn once(name: &str, password: &Password) -> (String, String) {
    let what = format!("Password of '{name}'");
    (what, format!("Shown once; must be changed at the first sign-in: {}", password.reveal()))
}

/// Data outside the controller that the caller may see.
pub(crate) fn upkeep(desk: &AppState, caller: &Caller) -> Upkeep {
    let channel = |info: crate::ChannelInfo| Channel {
        name: info.channel.name,
        target: info.channel.target,
        severity: info.channel.severity,
        waiting: info.waiting,
        problem: info.problem,
    };
    let channels = match caller.may(Action::Notifications) {
        Ok(()) => desk.office.list().into_iter().map(channel).collect(),
        Err(_) => Vec::new(),
    };
    let accounts = match caller.may(Action::Accounts) {
        Ok(()) => desk.keeper.list(),
        Err(_) => Vec::new(),
    };
    Upkeep { channels, accounts, certificate: desk.machine.certificate.clone() }
}
