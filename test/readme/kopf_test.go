package readme

import (
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const documentation = "https://kopf.readthedocs.io/en/stable/"

// kopfPages are the pages of the documentation of kopf 1.44.
var kopfPages = strings.Fields(`
	admission alternatives architecture async authentication cli concepts configuration continuity critiques daemons
	deployment docker embedding errors events filters handlers hierarchies idempotence indexing install kwargs loading
	memos minikube patches peering probing reconciliation resources results scopes shutdown startup testing timers
	tips-and-tricks troubleshooting vision
	walkthrough/problem walkthrough/prerequisites walkthrough/resources walkthrough/starting walkthrough/creation
	walkthrough/updates walkthrough/diffs walkthrough/deletion walkthrough/cleanup`)

// Each page of kopf's documentation must be named at the end of one of ours, except for the pages about its contributors, name and status.
func TestPages_NameThePagesOfKopf(t *testing.T) {
	link := regexp.MustCompile(regexp.QuoteMeta("]("+documentation) + `([\w/-]+)/\)`)
	named := map[string]bool{}
	for _, page := range glob(t, "docs/*.md") {
		switch name := filepath.Base(page); name {
		case "README.md": // the README is the index of the pages
			continue
		}
		lines := strings.Split(strings.TrimSpace(read(t, page)), "\n")
		last := lines[len(lines)-1]
		names := link.FindAllStringSubmatch(last, -1)
		for _, name := range names {
			named[name[1]] = true
			if !slices.Contains(kopfPages, name[1]) {
				t.Errorf("%s: kopf has no page %q", page, name[1])
			}
		}
	}
	for _, name := range kopfPages {
		if !named[name] {
			t.Errorf("no page names the page %q of kopf", name)
		}
	}
}

// kopfNames are the public names of kopf 1.44 and 1.45: docs/coming-from-kopf.md contains each of them.
var kopfNames = map[string]string{
	"decorators": `kopf.on.startup kopf.on.cleanup kopf.on.login kopf.on.probe kopf.on.validate kopf.on.mutate kopf.on.event
		kopf.on.create kopf.on.update kopf.on.delete kopf.on.resume kopf.on.field kopf.index kopf.daemon kopf.timer
		kopf.subhandler kopf.register kopf.execute`,
	"options": `id param registry errors timeout retries backoff labels annotations when field value old new optional deleted
		initial_delay cancellation_backoff cancellation_timeout cancellation_polling interval sharp idle operations operation
		subresource persistent side_effects ignore_failures group version kind plural singular shortcut category`,
	"arguments": `body spec meta status name namespace uid labels annotations patch old new diff reason type event retry started
		runtime logger memo param resource stopped settings activity dryrun operation subresource warnings userinfo headers sslpeer`,
	"settings": `process.ultimate_exiting_timeout posting.enabled posting.loggers posting.level posting.reporting_component
		posting.reporting_instance posting.event_name_prefix peering.name peering.stealth peering.priority peering.lifetime
		peering.mandatory peering.standalone peering.clusterwide watching.server_timeout watching.client_timeout
		watching.connect_timeout watching.reconnect_backoff watching.inactivity_timeout queueing.worker_limit
		queueing.idle_timeout queueing.exit_timeout queueing.error_delays queueing.batch_window scanning.disabled
		admission.server admission.managed execution.default_backoff execution.executor execution.max_workers
		networking.request_timeout networking.connect_timeout networking.error_backoffs networking.enforce_retry_after
		networking.trust_env persistence.finalizer persistence.progress_storage persistence.diffbase_storage
		persistence.consistency_timeout background.cancellation_polling background.instant_exit_timeout
		background.instant_exit_zero_time_cycles batching watching.label_selectors watching.field_selectors
		watching.shard_selectors watching.chunk_size watching.initial_streaming posting.default_backoffs posting.logging_backoffs
		posting.worker_limit posting.idle_timeout`,
	"flags": `--verbose --debug --quiet --log-format --log-prefix --log-refkey --module --all-namespaces --namespace --standalone
		--dev --liveness --peering --priority --id --lifetime --message`,
	"names": `kopf.lifecycles kopf.configure kopf.LogFormat kopf.login_via_pykube kopf.login_via_client kopf.login_via_async_client
		kopf.login_with_kubeconfig kopf.login_with_service_account kopf.LoginError kopf.ConnectionInfo kopf.AiohttpSession
		kopf.event kopf.info kopf.warn kopf.exception kopf.spawn_tasks kopf.run_tasks kopf.operator kopf.run kopf.adopt kopf.label
		kopf.harmonize_naming kopf.adjust_namespace kopf.append_owner_reference kopf.remove_owner_reference
		kopf.build_object_reference kopf.build_owner_reference kopf.not_ kopf.all_ kopf.any_ kopf.none_
		kopf.get_default_lifecycle kopf.set_default_lifecycle kopf.ErrorsMode kopf.TemporaryError kopf.PermanentError
		kopf.HandlerTimeoutError kopf.HandlerRetriesError kopf.AdmissionError kopf.Operation kopf.UserInfo kopf.Headers
		kopf.SSLPeer kopf.WebhookServer kopf.WebhookK3dServer kopf.WebhookMinikubeServer kopf.WebhookDockerDesktopServer
		kopf.WebhookNgrokTunnel kopf.WebhookAutoServer kopf.WebhookAutoTunnel kopf.OperatorRegistry kopf.get_default_registry
		kopf.set_default_registry kopf.PRESENT kopf.ABSENT kopf.OperatorSettings kopf.DiffBaseStorage
		kopf.AnnotationsDiffBaseStorage kopf.StatusDiffBaseStorage kopf.MultiDiffBaseStorage kopf.ProgressRecord
		kopf.ProgressStorage kopf.AnnotationsProgressStorage kopf.StatusProgressStorage kopf.MultiProgressStorage
		kopf.SmartProgressStorage kopf.RawEvent kopf.RawBody kopf.BodyEssence kopf.Status kopf.Spec kopf.Meta kopf.Body kopf.Labels
		kopf.Annotations kopf.ObjectReference kopf.OwnerReference kopf.Memo kopf.Index kopf.Store kopf.Logger kopf.ObjectLogger
		kopf.LocalObjectLogger kopf.FieldSpec kopf.FieldPath kopf.Diff kopf.DiffItem kopf.DiffOperation kopf.HandlerId
		kopf.Reason kopf.Patch kopf.PatchFn kopf.DaemonStopped kopf.DaemonStoppingReason kopf.SyncDaemonStopperChecker
		kopf.AsyncDaemonStopperChecker kopf.Resource kopf.EVERYTHING kopf.WebhookClientConfig kopf.WebhookClientConfigService
		kopf.WebhookFn kopf.WebhookServerProtocol kopf.RawEventType kopf.testing.KopfRunner`,
}

func TestComingFromKopf_NamesThePublicAPI(t *testing.T) {
	listed := inCode(read(t, filepath.Join(root, "docs/coming-from-kopf.md")))
	for _, sort := range slices.Sorted(maps.Keys(kopfNames)) {
		for name := range strings.FieldsSeq(kopfNames[sort]) {
			if !listed[name] {
				t.Errorf("docs/coming-from-kopf.md does not contain the kopf name %s (%s)", name, sort)
			}
		}
	}
}

// inCode returns the words that a page formats as code in its prose.
func inCode(page string) map[string]bool {
	listed := map[string]bool{}
	for _, span := range regexp.MustCompile("`([^`\n]+)`").FindAllStringSubmatch(prose(page), -1) {
		for word := range strings.FieldsFuncSeq(span[1], func(r rune) bool { return strings.ContainsRune(" ,()=", r) }) {
			listed[strings.TrimPrefix(word, "@")] = true
		}
	}
	return listed
}
