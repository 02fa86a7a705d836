// SPDX-License-Identifier: Apache-2.0

package delta

import (
	"github.com/google/uuid"

	"assay"
)

// ServiceID returns the id of an organization's service: a UUIDv5 (RFC 9562) of
// its key, so that all replicas agree on it without asking each other.
func ServiceID(organizationID string, k assay.ServiceKey) string {
	return nameID(organizationID, k.Namespace+"\x00"+k.Name+"\x00"+k.Environment+"\x00"+k.Version)
}

// InsightID returns the id of a service's insight of one type, likewise.
func InsightID(serviceID, insightType string) string {
	return nameID(serviceID, insightType)
}

func nameID(space, name string) string {
	ns, err := uuid.Parse(space)
	if err != nil { // ids of this project are UUIDs; anything else still gets a stable id
		ns = uuid.NewSHA1(uuid.NameSpaceOID, []byte(space))
	}
	return uuid.NewSHA1(ns, []byte(name)).String()
}
