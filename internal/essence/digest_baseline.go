package essence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"golang.org/x/crypto/blake2b"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// DigestKey is the only field of the document that replaces an essence if only its digest is stored.
const DigestKey = "kopf-runtime.dev/digest"

// Digest returns the digest of an encoded essence.
func Digest(text []byte) string {
	sum := blake2b.Sum256(text)
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// DigestBaseline stores essences in another baseline, and the digests of essences that are too large in a separate place. kopf does not
// read digests: it reads the text of the other baseline.
//
// A digest contains the digest of the stored text that it supersedes. If another operator has stored a new text since then, the digest is
// ignored.
type DigestBaseline struct {
	progress.Baseline
	digests progress.Baseline
}

// WithDigests returns a baseline that also stores digests.
func WithDigests(b progress.Baseline, stores ...progress.Store) DigestBaseline {
	return DigestBaseline{b, progress.Digest(b, stores...)}
}

// storedDigest is the JSON form of a stored digest.
type storedDigest struct {
	Digest string `json:"digest"`
	Since  string `json:"since"` // the digest of the superseded text
}

// Fetch returns the stored last-handled essence. If only a digest is stored, Fetch returns a document with [DigestKey] as its only
// field. Earlier versions have stored that document in the place of the essence.
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

// FetchStored returns the stored text that other operators read, even if a digest supersedes it.
func (b DigestBaseline) FetchStored(obj client.Object) []byte { return b.Baseline.Fetch(obj) }

// HasFullEssence reports whether the last-handled essence is stored, and not only its digest.
func (b DigestBaseline) HasFullEssence(obj client.Object) bool {
	text := b.Fetch(obj)
	return text != nil && !isDigestDocument(text)
}

// Store stores an encoded essence and removes the digest.
func (b DigestBaseline) Store(obj client.Object, text []byte) {
	b.Baseline.Store(obj, text)
	b.digests.Store(obj, nil)
}

// StoreDigest stores a digest instead of an essence. It keeps the earlier text for other operators if the object then fits, or else stores an empty
// essence. For other operators, the object is then changed and not new.
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
