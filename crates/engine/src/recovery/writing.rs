//! Writing bytes of one stripe, whatever stands in the way.

use crate::members::Trouble;
use crate::recovery::{Mend, Recovery};
use crate::stripe::{Attempt, Ended, Host, Patience};
use env::{Durability, IoError, IoErrorKind, Slice};
use plan::Request;
use std::rc::Rc;
use units::{ByteRange, DriveSet, StripeIndex};

impl Recovery {
    pub(crate) async fn write_planned(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        data: Slice,
        durability: Durability,
    ) -> Result<(), IoError> {
        let request = match data.is_zero() {
            true => Request::WriteZeroes { range: within },
            false => Request::Write { range: within },
        };
        let host = Host::Payload(data.into(), durability);
        let skipped = self.write_mending(stripe, within, request, host).await?;
        // Rule (a): what was skipped is durably known to have failed before the write is acknowledged.
        if skipped.is_empty() {
            return Ok(());
        }
        Box::pin(self.recorded(&skipped)).await
    }

    /// Plans and executes until it is done. What cannot be read and stands in the way is repaired first; what of it
    /// nothing can give back is given up for lost, where redundancy could not be kept otherwise: one
    /// unreadable block must not keep others from being written.
    async fn write_mending(
        self: &Rc<Self>,
        stripe: StripeIndex,
        within: ByteRange,
        request: Request<'_>,
        mut host: Host,
    ) -> Result<DriveSet, IoError> {
        const STEPS: [(Patience, Option<Mend>); 3] = [
            (Patience::Repair, Some(Mend::Look)),
            (Patience::PlanAround, Some(Mend::GiveUp)),
            (Patience::PlanAround, None),
        ];
        for (patience, then) in STEPS {
            // What is written is not lost any more. That is durable with the write, or the next start would call
            // lost what was acknowledged; and not before it, or a power cut would pass zeroes off as what is lost.
            let healed = self.lost_within(stripe, within);
            if let (false, Host::Payload(_, durability)) = (healed.is_empty(), &mut host) {
                *durability = Durability::Durable;
            }
            let mut trouble = Trouble::default();
            let how = Attempt::HELD.with(patience);
            let (ended, back) = self.attempt(stripe, request, host, &mut trouble, how).await;
            host = back;
            match (ended, then) {
                (Ended::Done { skipped, .. }, _) => {
                    if !healed.is_empty() {
                        Box::pin(self.healed_by_host(&healed)).await?;
                    }
                    return Ok(skipped);
                }
                (Ended::Failed(error), _) => return Err(error),
                (Ended::Lost | Ended::NeedsLock, Some(mend)) if !trouble.is_empty() => {
                    Box::pin(self.mend(stripe, &trouble.places, mend)).await?;
                }
                (Ended::Lost | Ended::NeedsLock, _) => break,
            }
        }
        Err(IoError::new(IoErrorKind::Medium))
    }
}
