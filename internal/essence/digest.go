package essence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"golang.org/x/crypto/blake2b"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// DigestKey is the only field of a text that stands for an essence which is too large to be stored: its digest.
const DigestKey = "kopf-runtime.dev/digest"

// Digest returns the digest of a text of [Encode], which sorts all keys.
func Digest(text []byte) string {
	sum := blake2b.Sum256(text)
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// A Baseline stores essences where another baseline stores them, and digests of those that are too large beside it. kopf does not know the
// digests: it reads what the other baseline has.
//
// A digest names the stored text that it supersedes. If another operator has stored a new text since, that one is returned.
type DigestBaseline struct {
	progress.Baseline
	digests progress.Baseline
}

// WithDigests returns the baseline with a place for digests beside it.
func WithDigests(b progress.Baseline, stores ...progress.Store) DigestBaseline {
	return DigestBaseline{b, progress.Digest(b, stores...)}
}

// A storedDigest is the form of a digest in its annotation.
type storedDigest struct {
	Digest string `json:"digest"`
	Since  string `json:"since"` // the digest of the text that is superseded
}

// Fetch returns the stored text of the last-handled essence; for a digest, a document with [DigestKey] as its only field. Earlier versions
// have stored that document in the place of the essence.
func (b DigestBaseline) Fetch(obj client.Object) []byte {
	stored := b.Baseline.Fetch(obj)
	if stored == nil {
		return nil
	}
	text := b.digests.Fetch(obj)
	if text == nil {
		return stored
	}
	var d storedDigest
	if err := json.Unmarshal(text, &d); err != nil || d.Digest == "" || d.Since != Digest(stored) {
		return stored
	}
	document, err := Encode(map[string]any{DigestKey: d.Digest})
	if err != nil {
		return stored
	}
	return document
}

// Stored returns what other operators read, whether a digest supersedes it or not.
func (b DigestBaseline) FetchStored(obj client.Object) []byte { return b.Baseline.Fetch(obj) }

// IsWhole reports whether the whole last-handled essence is stored, and not only its digest.
func (b DigestBaseline) HasFullEssence(obj client.Object) bool {
	text := b.Fetch(obj)
	return text != nil && !isDigestDocument(text)
}

// Store stores the text of an essence. It removes a digest.
func (b DigestBaseline) Store(obj client.Object, text []byte) {
	b.Baseline.Store(obj, text)
	b.digests.Store(obj, nil)
}

// StoreDigest stores a digest. For other operators, the text that was stored before stays, if it fits, or else an empty essence takes its
// place: to them, the object has changed, and is not new.
func (b DigestBaseline) StoreDigest(obj client.Object, digest string, stored []byte, fits func(client.Object) bool) error {
	empty := []byte("{}")
	if stored == nil || isDigestDocument(stored) {
		stored = empty
	}
	for _, text := range [][]byte{stored, empty} {
		b.Baseline.Store(obj, text)
		document, err := json.Marshal(storedDigest{Digest: digest, Since: Digest(b.Baseline.Fetch(obj))})
		if err != nil {
			return err
		}
		b.digests.Store(obj, document)
		if fits(obj) {
			break
		}
	}
	return nil
}

// UsesOnlyAnnotations implements [progress.AnnotationUser].
func (b DigestBaseline) UsesOnlyAnnotations(obj client.Object) bool {
	return progress.UsesOnlyAnnotations(b.Baseline, obj)
}

// Clear implements [progress.Baseline].
func (b DigestBaseline) Clear(essence map[string]any) {
	b.Baseline.Clear(essence)
	b.digests.Clear(essence)
}

func isDigestDocument(text []byte) bool {
	return bytes.HasPrefix(text, []byte(`{"`+DigestKey+`"`))
}
