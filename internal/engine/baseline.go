package engine

import (
	"encoding/base64"
	"fmt"

	"golang.org/x/crypto/blake2b"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
)

// annotationBudget is how much the annotations of an object may take in all; the server's limit is
// 256 KiB, and others need some, too.
const annotationBudget = 240 << 10

// digestKey is the only field of a baseline that is not an essence but the digest of one.
const digestKey = "kopf-runtime.dev/digest"

// remember stores an essence as the last handled one. If it is too large for the object to carry, its
// digest has to do: that still tells changed from unchanged (B-31).
func (e *Engine) remember(kept client.Object, handled map[string]any) error {
	text, err := essence.Encode(handled)
	if err != nil {
		return fmt.Errorf("the essence has no JSON form: %w", err)
	}
	e.Baseline.Store(kept, text)
	size := 0
	for key, value := range kept.GetAnnotations() {
		size += len(key) + len(value)
	}
	if size <= annotationBudget {
		return nil
	}
	if text, err = essence.Encode(map[string]any{digestKey: digest(text)}); err != nil {
		return err
	}
	e.Baseline.Store(kept, text)
	return nil
}

// digest stands for a text of any length. The text is that of [essence.Encode], which sorts all keys.
func digest(text []byte) string {
	sum := blake2b.Sum256(text)
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// isDigest reports whether a stored essence is only a digest, and whether it is that of the present one.
func isDigest(then, now map[string]any) (is, same bool) {
	stored, ok := then[digestKey].(string)
	if !ok || len(then) != 1 {
		return false, false
	}
	text, err := essence.Encode(now)
	return true, err == nil && digest(text) == stored
}
