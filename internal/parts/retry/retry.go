package retry

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/kopf-runtime/kopf-runtime/internal/annotations"
)

const (
	requestName = "retry."
	answerName  = "retried."

	maxName = 63 // of an annotation, without its prefix
)

// Keys are the annotation keys for an operator's handlers. With a nil Keys, there are no requests.
type Keys struct {
	prefix string            // with the slash
	ids    map[string]string // by the name in the key
}

// NewKeys returns the keys for handlers, with the prefix of the operator's annotations.
func NewKeys(prefix string, ids []string) *Keys {
	k := &Keys{prefix: prefix + "/", ids: make(map[string]string, len(ids))}
	for _, id := range ids {
		k.ids[nameOf(id)] = id
	}
	return k
}

// IsName reports whether an annotation's name, without its prefix, is that of a request or an answer.
func IsName(name string) bool {
	return strings.HasPrefix(name, requestName) || strings.HasPrefix(name, answerName)
}

// RequestKey returns the key of a request for a handler.
func RequestKey(prefix, id string) string { return prefix + "/" + requestName + nameOf(id) }

// AnswerKey returns the key of the answer to a request for a handler.
func AnswerKey(prefix, id string) string { return prefix + "/" + answerName + nameOf(id) }

// nameOf returns the form of an id in keys: characters that a key can't have are replaced with dots, and the end of a long id with a hash.
func nameOf(id string) string {
	name := strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '-' || c == '_' {
			return c
		}
		return '.'
	}, id)
	if last := len(name) - 1; last >= 0 && strings.ContainsAny(name[last:], "-_.") {
		name += "x" // keys end with a letter or a digit
	}
	if limit := maxName - len(answerName); len(name) > limit {
		sum := fnv.New32a()
		_, _ = sum.Write([]byte(id)) // never fails
		name = fmt.Sprintf("%s-%08x", name[:limit-9], sum.Sum32())
	}
	return name
}

// A Request asks for a handler's call.
type Request struct {
	ID   string // of the handler; empty if the operator doesn't have it
	Name string // in the key
	Text string
	// HasBegun is true if the handler was already called for this request.
	HasBegun bool
}

// Find returns the requests on an object, sorted by name.
func (k *Keys) Find(obj client.Object) (all []Request) {
	if k == nil {
		return nil
	}
	annotations := obj.GetAnnotations()
	for key, text := range annotations {
		name, isRequest := strings.CutPrefix(key, k.prefix+requestName)
		if !isRequest {
			continue
		}
		last := k.answer(annotations, name)
		all = append(all, Request{k.ids[name], name, text, last.Outcome == Retrying && last.Request == shortened(text, MaxRequest)})
	}
	slices.SortFunc(all, func(a, b Request) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// HasWork reports whether an object has requests, or answers to withdrawn ones.
func (k *Keys) HasWork(obj client.Object) bool {
	if k == nil {
		return false
	}
	for key := range obj.GetAnnotations() {
		if strings.HasPrefix(key, k.prefix+requestName) {
			return true
		}
	}
	return k.HasWithdrawn(obj)
}

// HasWithdrawn reports whether an object has answers to requests that were removed before their handlers had finished.
func (k *Keys) HasWithdrawn(obj client.Object) bool {
	if k == nil {
		return false
	}
	annotations := obj.GetAnnotations()
	for key := range annotations {
		if name, isAnswer := strings.CutPrefix(key, k.prefix+answerName); isAnswer && k.isWithdrawn(annotations, name) {
			return true
		}
	}
	return false
}

func (k *Keys) isWithdrawn(annotations map[string]string, name string) bool {
	_, requested := annotations[k.prefix+requestName+name]
	return !requested && k.answer(annotations, name).Outcome == Retrying
}

// answer returns the stored answer with a name, and the zero Answer if there is none or it is unreadable.
func (k *Keys) answer(annotations map[string]string, name string) (last Answer) {
	_ = json.Unmarshal([]byte(annotations[k.prefix+answerName+name]), &last)
	return last
}

// Clear removes requests and answers from the JSON form of an object.
func (k *Keys) Clear(content map[string]any) {
	meta, _ := content["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	for key := range annotations {
		if k == nil {
			return
		}
		if name, found := strings.CutPrefix(key, k.prefix); found && IsName(name) {
			delete(annotations, key)
		}
	}
}

// Outcome says what has become of a request.
type Outcome string

// The outcomes.
const (
	Retrying  Outcome = "retrying" // the handler was called, and will be called again
	Succeeded Outcome = "succeeded"
	Failed    Outcome = "failed"  // permanently
	Refused   Outcome = "refused" // the handler was not called
	Called    Outcome = "called"  // a daemon or timer was started; its outcome is not awaited
)

// An Answer is the JSON value of the annotation that answers a request.
type Answer struct {
	// Request is the text of the request, of which only the first 256 bytes count.
	Request string  `json:"request"`
	Outcome Outcome `json:"outcome"`
	// Message is the handler's error, or why the request was refused.
	Message string `json:"message,omitempty"`
}

// The maximum lengths of texts in answers in bytes, because all annotations of an object share one limit. Answers repeat longer texts only
// in part.
const (
	MaxRequest = 256
	maxMessage = 1024
)

func shortened(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	return strings.ToValidUTF8(text[:limit], "") + "…"
}

// Store stores an answer in an object's annotations. It removes the request unless the handler will be called again, or the request was
// replaced with a newer one.
func (k *Keys) Store(all map[string]string, to Request, a Answer) {
	a.Request, a.Message = shortened(to.Text, MaxRequest), shortened(a.Message, maxMessage)
	text, err := json.Marshal(a)
	if err != nil {
		panic("retry: encode the answer: " + err.Error()) // it has only strings
	}
	all[k.prefix+answerName+to.Name] = string(text)
	annotations.Mark(all, strings.TrimSuffix(k.prefix, "/"))
	if key := k.prefix + requestName + to.Name; a.Outcome != Retrying && all[key] == to.Text {
		delete(all, key)
	}
}

// Forget removes the answers to withdrawn requests from an object's annotations. With all, it removes those to any request that no longer
// exists.
func (k *Keys) Forget(annotations map[string]string, all bool) {
	for key := range annotations {
		if name, isAnswer := strings.CutPrefix(key, k.prefix+answerName); isAnswer {
			if _, requested := annotations[k.prefix+requestName+name]; !requested && all || k.isWithdrawn(annotations, name) {
				delete(annotations, key)
			}
		}
	}
}
