package progress

import (
	"fmt"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	pinPrefix = "runtime." + DefaultPrefix
	pinName   = "pinned-configuration"
)

// A pinner is a [Baseline] that knows where the essence is to be kept with which a cycle began.
type pinner interface{ pin() Baseline }

// Pin returns the place beside a baseline for the essence that a cycle has begun with, for as long as the
// cycle lasts: an annotation "pinned-configuration", under the prefix of the baseline, or under
// "runtime.kopf.zalando.org" if that has none of its own. kopf ignores it.
func Pin(b Baseline) Baseline {
	if p, ok := b.(pinner); ok {
		return p.pin()
	}
	return pin{annotationKeys{prefix: pinPrefix}}
}

func (b annotationBaseline) pin() Baseline {
	if b.keys.prefix == DefaultPrefix {
		return pin{annotationKeys{prefix: pinPrefix}}
	}
	return pin{b.keys}
}

func (b ignoringBaseline) pin() Baseline { return Pin(b.Baseline) }

func (m multiBaseline) pin() Baseline {
	for _, part := range m {
		if p, ok := part.(pinner); ok {
			return p.pin()
		}
	}
	return pin{annotationKeys{prefix: pinPrefix}}
}

// A pin is no handler's record and no baseline, but is kept like them.
type pin struct{ keys annotationKeys }

func (p pin) Fetch(obj client.Object) []byte {
	for _, value := range p.keys.values(obj, pinName) {
		return []byte(strings.TrimSpace(value))
	}
	return nil
}

// Store puts the essence on the object; nil removes it.
func (p pin) Store(obj client.Object, essence []byte) {
	if essence == nil {
		p.keys.remove(obj, pinName)
		return
	}
	p.keys.write(obj, pinName, string(essence))
}

func (p pin) Clear(essence map[string]any) {
	clearAnnotations(essence, func(key string) bool {
		return strings.HasPrefix(key, p.keys.prefix+"/"+pinName)
	})
}

func (p pin) String() string { return fmt.Sprintf("%s/%s", p.keys.prefix, pinName) }
