"""OpenStack's client of Redfish: finds drives, makes a volume, initialises it, waits for the task, deletes it.

    sushy_client.py ADDRESS NAME PASSWORD
"""

import sys
import time
import warnings

import sushy
from sushy import auth

warnings.filterwarnings("ignore")
address, name, password = sys.argv[1:4]
root = sushy.Sushy(address, auth=auth.SessionAuth(name, password), verify=False)


def found():
    """The storage as it is now: the client remembers what it was."""
    return root.get_system("/redfish/v1/Systems/host").storage.get_members()[0]


storage = found()
drives = storage.drives
assert all(drive.capacity_bytes and drive.media_type for drive in drives), drives
assert [controller.name for controller in storage.controllers.get_members()] == ["SoftROC"]
assert storage.volumes.operation_apply_time_support.supported_values, "it says when"
before = {volume.name for volume in storage.volumes.get_members()}

links = [{"@odata.id": drive.path} for drive in drives[-2:]]
made = storage.volumes.create(
    {"Name": "sushy", "RAIDType": "RAID1", "Links": {"Drives": links}}, apply_time=sushy.APPLY_TIME_IMMEDIATE
)
assert made.name == "sushy" and made.raid_type == sushy.RAID_TYPE_RAID1, made
names = {volume.name for volume in found().volumes.get_members()}
assert names == before | {"sushy"}, names

made.initialize(sushy.VOLUME_INIT_TYPE_FAST)
made.delete()
for _ in range(600):
    if {volume.name for volume in found().volumes.get_members()} == before:
        break
    time.sleep(0.1)
else:
    sys.exit("the volume is still there")
print("done")
