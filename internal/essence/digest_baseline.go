package essence

import (
	"bytes"
	"encoding/base64"
	"encoding/json"

	"golang.org/x/crypto/blake2b"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/pkg/progress"
)

// DigestDocumentKey is the only field of the document that [DigestBaseline.Fetch] returns if only the digest of an essence is stored.
const DigestDocumentKey = "kopf-runtime.dev/digest"

// Digest returns the digest of an encoded essence.
func Digest(text []byte) string {
	sum := blake2b.Sum256(text)
	return base64.RawStdEncoding.EncodeToString(sum[:])
}

// DigestBaseline stores essences in a different baseline. If an essence is too large, it stores only the digest, in a separate place. kopf
// operators read only the text of the other baseline.
//
// A digest includes the digest of the stored text that it supersedes. If a different operator has stored a new text since, Fetch ignores
// the digest.
type DigestBaseline struct {
	progress.Baseline
	digests progress.Baseline
}

// emptyEssence is the text that a digest supersedes if there is no room for the earlier text.
var emptyEssence = []byte("{}")

// WithDigestFallback returns a baseline that stores only the digest of an essence that is too large.
func WithDigestFallback(b progress.Baseline, stores ...progress.Store) DigestBaseline {
	return DigestBaseline{b, progress.Digest(b, stores...)}
}

// storedDigest is the JSON form of a stored digest.
type storedDigest struct {
	Digest string `json:"digest"`
	Since  string `json:"since"` // digest of the superseded text
}

// Fetch returns the stored last-handled essence. If only a digest is stored, it returns a document with [DigestDocumentKey] as its only
// field. Earlier versions stored this document instead of the essence.
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
	document, err := digestDocument(d.Digest)
	if err != nil {
		return stored
	}
	return document
}

// DigestDocument returns the document that stands for an encoded essence of which only the digest is known.
func DigestDocument(text []byte) ([]byte, error) { return digestDocument(Digest(text)) }

func digestDocument(digest string) ([]byte, error) {
	return Encode(map[string]any{DigestDocumentKey: digest})
}

// FetchIgnoringDigest returns the stored text that other operators read, even if a digest supersedes it.
func (b DigestBaseline) FetchIgnoringDigest(obj client.Object) []byte { return b.Baseline.Fetch(obj) }

// HasText reports whether an essence's text is stored, even if a digest supersedes it.
func (b DigestBaseline) HasText(obj client.Object) bool {
	text := b.Baseline.Fetch(obj)
	return text != nil && !IsDigestDocument(text) && !bytes.Equal(text, emptyEssence)
}

// HasFullEssence reports whether the whole last-handled essence is stored, not just its digest.
func (b DigestBaseline) HasFullEssence(obj client.Object) bool {
	text := b.Fetch(obj)
	return text != nil && !IsDigestDocument(text)
}

// Store stores an encoded essence and removes the digest.
func (b DigestBaseline) Store(obj client.Object, text []byte) {
	b.Baseline.Store(obj, text)
	b.digests.Store(obj, nil)
}

// SupersedeByDigest stores a digest instead of an essence. For other operators, it keeps the earlier text if fits says that there is room
// for it. Otherwise, it stores an empty essence, so that they consider the object changed instead of new.
func (b DigestBaseline) SupersedeByDigest(obj client.Object, digest string, stored []byte, fits func(client.Object) bool) error {
	if stored == nil || IsDigestDocument(stored) {
		stored = emptyEssence
	}
	for _, text := range [][]byte{stored, emptyEssence} {
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

// ClearStored removes the stored values from an object's JSON form.
func (b DigestBaseline) ClearStored(content map[string]any) {
	progress.ClearStored(b.Baseline, content)
	b.digests.Clear(content)
}

// Clear implements [progress.Baseline].
func (b DigestBaseline) Clear(essence map[string]any) {
	b.Baseline.Clear(essence)
	b.digests.Clear(essence)
}

// NoBaseline stands for the digest of a missing baseline.
const NoBaseline = "none"

// BaselineDigest returns the digest for a text from [DigestBaseline.Fetch], which may itself contain only a digest.
func BaselineDigest(text []byte) string {
	if text == nil {
		return NoBaseline
	}
	var document map[string]string
	if IsDigestDocument(text) && json.Unmarshal(text, &document) == nil {
		return document[DigestDocumentKey]
	}
	return Digest(text)
}

// IsDigestDocument reports whether a text from [DigestBaseline.Fetch] contains only the digest of an essence.
func IsDigestDocument(text []byte) bool {
	return bytes.HasPrefix(text, []byte(`{"`+DigestDocumentKey+`"`))
}

// DigestOf returns an essence's digest. It is empty if the essence can't be encoded.
func DigestOf(essence map[string]any) string {
	text, err := Encode(essence)
	if err != nil {
		return ""
	}
	return Digest(text)
}
