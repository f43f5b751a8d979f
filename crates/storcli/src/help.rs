//! The help text.

use crate::Surroundings;

/// The supported commands.
const COMMANDS: &str = "
x is a number, a range (0-2), a list (2,5) or all. A J at the end answers in JSON; nothing is \
logged in files.

show [ctrlcount]                                     -v
/cx show [all|events|freespace|patrolread|cc|preservedcache|time|...]
/cx show events [type=sincereboot|sinceshutdown|latest=N] \
[filter=info,warning,critical,fatal] [file=F]
/cx show alarm|autorebuild|copyback|eghs|jbod|rebuildrate|ccrate|prrate|bgirate|reconrate|temperature
/cx set rebuildrate|ccrate|prrate=PERCENT
/cx set alarm=on|off|silence   /cx set copyback=on|off   /cx set eghs state=on|off
/cx set patrolread=on mode=auto|manual [delay=HOURS]   /cx set patrolread=off   \
/cx set patrolread delay=HOURS
/cx set cc=conc|off [delay=HOURS] [starttime=yyyy/mm/dd hh] [excludevd=x|none]
/cx start|stop|pause|resume patrolread               /cx flushcache
/cx get config file=F   /cx set config file=F        /cx delete config force
/cx add vd r0|r1|r5|r6|r00|r10|r50|r60 drives=e:s-s,e:s [name=N,...] \
[size=10gb,...|all] [strip=KB] [pdperarray=N]
           [wt|wb|awb] [nora|ra] [direct|cached] [spares=e:s] [force]   \
/cx add vd each r0 drives=e:s-s
/cx/vx show [all|init|cc|bgi|migrate|erase|expansion|autobgi]
/cx/vx set wrcache=wt|wb|awb   /cx/vx set name=N
/cx/vx start migrate type=raidx [option=add|remove drives=e:s] [force]   /cx/vx expand size=10gb
/cx/vx start init [full] force   /cx/vx stop init    /cx/vx start|stop|pause|resume cc
/cx/vx stop|pause|resume bgi   /cx/vx del|delete force [discardcache]   /cx/vx delete preservedcache
/cx/ex show [all]   /cx/dx show [all]
/cx[/ex]/sx show [all|rebuild|copyback|initialization|erase|patrolread]
/cx[/ex]/sx set online|offline|missing|good [force]
/cx[/ex]/sx start|stop|pause|resume rebuild          /cx[/ex]/sx start|stop locate
/cx[/ex]/sx start copyback target=e:s   /cx[/ex]/sx stop|pause|resume copyback
/cx[/ex]/sx add hotsparedrive [dgs=x] [enclaffinity] [nonrevertible]   \
/cx[/ex]/sx delete hotsparedrive
/cx[/ex]/sx insert dg=A array=B row=C
/cx/fall show [all]   /cx/fall import [preview]   /cx/fall del
/cx/bbu show   /cx/cv show                           (there are none: refused)

docs/operate/storcli.md describes the commands and their limits. \
SoftROC's own commands: softroc --help
";

/// The help.
pub(crate) fn text(around: &Surroundings) -> String {
    format!("{}{COMMANDS}", around.version_line())
}
