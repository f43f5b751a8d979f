"""DMTF's client library: a session, a change with a revision, a task until it is done, and what is refused.

    redfish_client.py ADDRESS NAME PASSWORD
"""

import sys
import time
import warnings

import redfish

warnings.filterwarnings("ignore")
address, name, password = sys.argv[1:4]
client = redfish.redfish_client(base_url=address, username=name, password=password)
client.login(auth="session")
volumes = client.get("/redfish/v1/Systems/host/Storage/softroc/Volumes?$expand=.").dict["Members"]
volume = next(one for one in volumes if one["Name"] == "data")
uri = volume["@odata.id"]

old = client.get(uri).getheader("etag")
renamed = client.patch(uri, body={"DisplayName": "renamed"}, headers={"If-Match": old})
assert renamed.status == 200 and renamed.dict["Name"] == "renamed", renamed.text
assert client.patch(uri, body={"DisplayName": "data"}, headers={"If-Match": old}).status == 412
assert client.patch(uri, body={"DisplayName": "data"}).status == 200

begun = client.post(volume["Actions"]["#Volume.CheckConsistency"]["target"], body={})
assert begun.status == 202 and begun.is_processing, begun.text
monitor = begun.monitor(client)
while monitor.is_processing:
    time.sleep(0.1)
    monitor = begun.monitor(client)
assert monitor.status == 200 and monitor.dict["TaskState"] == "Completed", monitor.text

taken = {"RAIDType": "RAID1", "Links": {"Drives": volume["Links"]["Drives"][:2]}, "Name": "data"}
refused = client.post("/redfish/v1/Systems/host/Storage/softroc/Volumes", body=taken)
info = refused.dict["error"]["@Message.ExtendedInfo"]
assert refused.status == 409 and info[-1]["MessageId"] == "SoftROC.1.0.Reason", refused.text
log = client.get("/redfish/v1/Managers/softroc/LogServices/Log/Entries?$top=5").dict
assert len(log["Members"]) == 5 and log["Members"][0]["MessageId"].startswith("SoftROC.1.0."), log
client.logout()
print("done")
