// SPDX-License-Identifier: Apache-2.0

package receive

import (
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"assay/internal/safetext"
)

// Field numbers, identical in the responses of all three signals.
const (
	partialSuccessField = 1 // Export...ServiceResponse.partial_success
	errorMessageField   = 2 // Export...PartialSuccess.error_message
)

// success returns the response to an accepted request. With a warning, it is a partial success that rejects nothing.
func success(warning string) []byte {
	if warning == "" {
		return nil
	}
	partial := protowire.AppendTag(nil, errorMessageField, protowire.BytesType)
	partial = protowire.AppendString(partial, strings.ToValidUTF8(warning, "\uFFFD"))
	b := protowire.AppendTag(nil, partialSuccessField, protowire.BytesType)
	return protowire.AppendBytes(b, partial)
}

// successJSON is the JSON form of success.
func successJSON(warning string) []byte {
	var response struct {
		PartialSuccess struct {
			ErrorMessage string `json:"errorMessage,omitzero"`
		} `json:"partialSuccess,omitzero"`
	}
	response.PartialSuccess.ErrorMessage = warning
	b, _ := json.Marshal(response) // cannot fail: it is a string
	return safetext.JSON(b)
}
