package retry

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
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
		var last Answer
		err := json.Unmarshal([]byte(annotations[k.prefix+answerName+name]), &last)
		all = append(all, Request{k.ids[name], name, text, err == nil && last.Outcome == Retrying && last.Request == text})
	}
	slices.SortFunc(all, func(a, b Request) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// Has reports whether an object has requests.
func (k *Keys) Has(obj client.Object) bool { return k.has(obj, requestName) }

// HasAnswers reports whether an object has answers.
func (k *Keys) HasAnswers(obj client.Object) bool { return k.has(obj, answerName) }

func (k *Keys) has(obj client.Object, name string) bool {
	if k == nil {
		return false
	}
	for key := range obj.GetAnnotations() {
		if domain, found := strings.CutPrefix(key, k.prefix); found && strings.HasPrefix(domain, name) {
			return true
		}
	}
	return false
}

// Clear removes requests and answers from the JSON form of an object.
func (k *Keys) Clear(content map[string]any) {
	meta, _ := content["metadata"].(map[string]any)
	annotations, _ := meta["annotations"].(map[string]any)
	for key := range annotations {
		if k != nil && k.owns(key) {
			delete(annotations, key)
		}
	}
}

func (k *Keys) owns(key string) bool {
	return strings.HasPrefix(key, k.prefix+requestName) || strings.HasPrefix(key, k.prefix+answerName)
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
	// Request is the text of the request.
	Request string  `json:"request"`
	Outcome Outcome `json:"outcome"`
	// Message is the handler's error, or why the request was refused.
	Message string `json:"message,omitempty"`
}

// maxMessage is the maximum length of a message in bytes.
const maxMessage = 1024

// Store stores an answer in an object's annotations, and removes the request unless the handler will be called again.
func (k *Keys) Store(annotations map[string]string, to Request, a Answer) {
	if len(a.Message) > maxMessage {
		a.Message = strings.ToValidUTF8(a.Message[:maxMessage], "") + "…"
	}
	a.Request = to.Text
	text, err := json.Marshal(a)
	if err != nil {
		panic("retry: encode the answer: " + err.Error()) // it has only strings
	}
	annotations[k.prefix+answerName+to.Name] = string(text)
	if a.Outcome != Retrying {
		delete(annotations, k.prefix+requestName+to.Name)
	}
}

// Forget removes the answers to requests that no longer exist from an object's annotations.
func (k *Keys) Forget(annotations map[string]string) {
	for key := range annotations {
		if name, isAnswer := strings.CutPrefix(key, k.prefix+answerName); isAnswer {
			if _, requested := annotations[k.prefix+requestName+name]; !requested {
				delete(annotations, key)
			}
		}
	}
}
