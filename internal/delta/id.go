// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"github.com/google/uuid"

	"assay"
)

// ServiceID returns the id of an organization's service, a UUIDv5 (RFC 9562) of its key. All replicas compute the
// same id.
func ServiceID(organizationID string, k assay.ServiceKey) string {
	return nameID(organizationID, k.Namespace+"\x00"+k.Name+"\x00"+k.Environment+"\x00"+k.Version)
}

// InsightID returns the id of a service's insight of one type, a UUIDv5.
func InsightID(serviceID, insightType string) string {
	return nameID(serviceID, insightType)
}

func nameID(space, name string) string {
	ns, err := uuid.Parse(space)
	if err != nil { // space is normally a UUID; derive a stable id from other values, too
		ns = uuid.NewSHA1(uuid.NameSpaceOID, []byte(space))
	}
	return uuid.NewSHA1(ns, []byte(name)).String()
}
