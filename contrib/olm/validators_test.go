package olm

import (
	"testing"

	. "github.com/onsi/gomega"
	"github.com/operator-framework/api/pkg/validation"
)

// The list must contain new validators of operator-framework, except for the one that runs docker.
func TestValidators_OmitOnlyMultipleArchitectures(t *testing.T) {
	NewWithT(t).Expect(validators).To(HaveLen(len(validation.AllValidators) - 1))
}
