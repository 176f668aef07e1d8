package engine

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"hash/maphash"

	"golang.org/x/crypto/blake2b"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/essence"
)

// The annotations of an object have a limit of the server's for all of them. Others need some, too: what
// can do with less, does so when they come to more than the budget.
const (
	annotationLimit  = 256 << 10
	annotationBudget = 240 << 10
)

// digestKey is the only field of a baseline that is not an essence but the digest of one.
const digestKey = "kopf-runtime.dev/digest"

// remember stores an essence as the last handled one. If it is too large for the object to carry, its
// digest has to do: that still tells changed from unchanged (B-31). Reports whether that was so.
func (e *Engine) remember(kept client.Object, handled map[string]any) (shortened bool, err error) {
	text, err := essence.Encode(handled)
	if err != nil {
		return false, fmt.Errorf("the essence has no JSON form: %w", err)
	}
	e.Baseline.Store(kept, text)
	if sizeOf(kept) <= annotationBudget {
		return false, nil
	}
	return true, e.rememberDigest(kept, digest(text))
}

func (e *Engine) rememberDigest(kept client.Object, digest string) error {
	text, err := essence.Encode(map[string]any{digestKey: digest})
	if err != nil {
		return err
	}
	e.Baseline.Store(kept, text)
	return nil
}

func sizeOf(obj client.Object) int {
	size := 0
	for key, value := range obj.GetAnnotations() {
		size += len(key) + len(value)
	}
	return size
}

// digest stands for a text of any length. The text is that of [essence.Encode], which sorts all keys.
func digest(text []byte) string {
	sum := blake2b.Sum256(text)
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// digestOf is the digest of an essence; empty if it has no JSON form.
func digestOf(of map[string]any) string {
	text, err := essence.Encode(of)
	if err != nil {
		return ""
	}
	return digest(text)
}

// isDigest reports whether a stored essence is only a digest, and whether it is that of the present one.
func isDigest(then, now map[string]any) (is, same bool) {
	stored, ok := then[digestKey].(string)
	if !ok || len(then) != 1 {
		return false, false
	}
	return true, stored == digestOf(now)
}

// seed is that of the hashes of this process.
var seed = maphash.MakeSeed()

// stores tells which baseline a write is to put on the object; nil: it leaves the one that is there.
func (e *Engine) stores(c *cycle, kept client.Object) []byte {
	stored := e.Baseline.Fetch(kept)
	if bytes.Equal(stored, e.Baseline.Fetch(c.before)) {
		return nil
	}
	return stored
}

// keeps remembers the baseline that was written.
func (c *cycle) keeps(stored []byte) {
	if stored != nil {
		c.memory.Kept = maphash.Bytes(seed, stored)
	}
}

// isKept reports whether the object is as the baseline has it that this process has stored last, although another one is
// there now: somebody has put an old one there. Kubernetes does so to replica sets, again and again, after a rollout was undone.
func (c *cycle) isKept(stored []byte) bool {
	if c.memory.Kept == 0 || maphash.Bytes(seed, stored) == c.memory.Kept {
		return false
	}
	live, err := essence.Encode(c.live)
	return err == nil && maphash.Bytes(seed, live) == c.memory.Kept
}
