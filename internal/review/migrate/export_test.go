// SPDX-License-Identifier: Apache-2.0

package migrate

// AttributeKey is attributeKey for tests.
var AttributeKey = attributeKey
