package controlplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// What the server asks of itself is of no interest, nor are heartbeats, events and checks of access.
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived, ResponseStarted]
omitManagedFields: true
rules:
- level: None
  users: ["system:apiserver"]
- level: None
  resources:
  - {group: "", resources: [events, serviceaccounts/token]}
  - {group: events.k8s.io}
  - {group: coordination.k8s.io, resources: [leases]}
  - {group: authentication.k8s.io}
  - {group: authorization.k8s.io}
- level: Request
  verbs: [create, update, patch, delete, deletecollection]
- level: None
`

var auditFlags = []string{
	"audit-policy-file", "audit-log-path", "audit-log-mode", "audit-log-maxsize", "audit-log-format",
}

func (cp *ControlPlane) configureAudit(flags *envtest.Arguments) error {
	policy := cp.path("audit-policy.yaml")
	if err := os.WriteFile(policy, []byte(auditPolicy), 0o600); err != nil {
		return err
	}
	flags.Set("audit-policy-file", policy).
		Set("audit-log-path", cp.path("audit.log")).
		Set("audit-log-mode", "blocking").
		Set("audit-log-format", "json").
		Set("audit-log-maxsize", "1000000") // in megabytes: it is to stay one file
	return nil
}

// auditSize is 0 when nothing was recorded yet.
func (cp *ControlPlane) auditSize() (int64, error) {
	info, err := os.Stat(cp.path("audit.log"))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// A Request is a write request as the server saw it, answered by now.
type Request struct {
	Time        time.Time // when it arrived
	Verb        string    // create, update, patch, delete or deletecollection
	User        string
	UserAgent   string
	URI         string // with its query, which tells the field manager and the dry run
	Group       string // of the API, empty for the core
	Resource    string // in plural
	Subresource string
	Namespace   string
	Name        string // empty if it was left to the server, by generateName
	Code        int    // of the response
	// Body is the object to be created or updated, without its managedFields, or the patch as it
	// was sent, or the options of the deletion; nil if there was none.
	Body json.RawMessage
}

// An AuditTail reads what was recorded, from one look to the next. It is for one goroutine;
// take one for each.
type AuditTail struct {
	cp     *ControlPlane
	offset int64
}

// Audit returns a tail of the write requests since the end of Start. It needs Options.Audit.
// There are none of the server's own, none on leases and events, and none on reviews and tokens
// of access.
func (cp *ControlPlane) Audit() *AuditTail {
	return &AuditTail{cp: cp, offset: cp.auditStart}
}

// Next returns the requests recorded since the last call, in the order of their completion.
// A request is recorded before its response is complete, so none of those is missing whose
// response was received, unless that was too large for the server's buffer of 4 KiB: such a one
// may come a moment late.
func (t *AuditTail) Next() ([]Request, error) {
	if !t.cp.audited {
		return nil, errors.New("control plane: nothing is recorded: start it with Options{Audit: true}")
	}
	file, err := os.Open(t.cp.path("audit.log"))
	if errors.Is(err, os.ErrNotExist) {
		if _, err := os.Stat(t.cp.dir); err != nil {
			return nil, fmt.Errorf("control plane: the audit log ends with Stop, call Next before it: %w", err)
		}
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("control plane: audit log: %w", err)
	}
	defer file.Close()
	if _, err := file.Seek(t.offset, io.SeekStart); err != nil {
		return nil, fmt.Errorf("control plane: audit log: %w", err)
	}
	text, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("control plane: audit log: %w", err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1] // the last line may still be in the making
	var requests []Request
	for line := range bytes.Lines(text) {
		request, err := parseAudit(line)
		if err != nil {
			return nil, fmt.Errorf("control plane: this line of the audit log is not understood "+
				"(a new version of kube-apiserver? then adapt internal/controlplane): %w: %.500s", err, line)
		}
		requests = append(requests, request)
	}
	t.offset += int64(len(text))
	return requests, nil
}

func parseAudit(line []byte) (Request, error) {
	var event struct {
		RequestReceivedTimestamp time.Time
		Verb                     string
		User                     struct{ Username string }
		UserAgent                string
		RequestURI               string
		ObjectRef                struct{ APIGroup, Resource, Subresource, Namespace, Name string }
		ResponseStatus           struct{ Code int }
		RequestObject            json.RawMessage
	}
	if err := json.Unmarshal(line, &event); err != nil {
		return Request{}, err
	}
	return Request{
		Time:        event.RequestReceivedTimestamp,
		Verb:        event.Verb,
		User:        event.User.Username,
		UserAgent:   event.UserAgent,
		URI:         event.RequestURI,
		Group:       event.ObjectRef.APIGroup,
		Resource:    event.ObjectRef.Resource,
		Subresource: event.ObjectRef.Subresource,
		Namespace:   event.ObjectRef.Namespace,
		Name:        event.ObjectRef.Name,
		Code:        event.ResponseStatus.Code,
		Body:        event.RequestObject,
	}, nil
}
