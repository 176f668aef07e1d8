package parity

// kopfNames are the public names of kopf 1.44 and 1.45, with the keywords of its decorators, the arguments of its handlers,
// its settings and its commands.
const kopfNames = `
@kopf.on.startup @kopf.on.cleanup @kopf.on.login @kopf.on.probe @kopf.on.event @kopf.on.create @kopf.on.update @kopf.on.delete
@kopf.on.resume @kopf.on.field @kopf.on.validate @kopf.on.mutate @kopf.on.daemon @kopf.on.timer @kopf.on.index @kopf.on.subhandler
@kopf.daemon @kopf.timer @kopf.index @kopf.subhandler kopf.on kopf.register kopf.on.register kopf.execute

id= param= registry= labels= annotations= when= field= value= old= new= errors= timeout= retries= backoff= optional= deleted=
initial_delay= cancellation_backoff= cancellation_timeout= cancellation_polling= interval= sharp= idle= operations= operation=
subresource= persistent= side_effects= ignore_failures=

param retry started runtime logger memo settings activity resource body spec meta status uid name namespace labels annotations
patch type event reason old new diff stopped dryrun operation warnings userinfo headers sslpeer

ErrorsMode TemporaryError PermanentError HandlerTimeoutError HandlerRetriesError AdmissionError LoginError

configure LogFormat login_via_pykube login_via_client login_via_async_client login_with_kubeconfig login_with_service_account
kopf.event info warn exception spawn_tasks run_tasks operator run adopt label harmonize_naming adjust_namespace append_owner_reference
remove_owner_reference build_object_reference build_owner_reference not_ all_ any_ none_ lifecycles get_default_lifecycle
set_default_lifecycle get_default_registry set_default_registry

PRESENT ABSENT EVERYTHING Resource ConnectionInfo AiohttpSession OperatorRegistry RawEventType RawEvent RawBody Status Spec Meta
Body BodyEssence Labels Annotations ObjectReference OwnerReference Memo Index Store Logger ObjectLogger LocalObjectLogger FieldSpec
FieldPath Diff DiffItem DiffOperation HandlerId Reason Patch PatchFn Patch.as_json_patch Patch.fns Patch.clear DaemonStopped
DaemonStopped.is_set DaemonStopped.wait DaemonStopped.reason DaemonStoppingReason SyncDaemonStopperChecker AsyncDaemonStopperChecker
__version__ __version_tuple__ __commit_id__

WebhookFn WebhookServerProtocol WebhookClientConfig WebhookClientConfigService WebhookServer WebhookServer.build_certificate
WebhookK3dServer WebhookMinikubeServer WebhookDockerDesktopServer WebhookNgrokTunnel WebhookAutoServer WebhookAutoTunnel Operation
UserInfo Headers SSLPeer

DiffBaseStorage AnnotationsDiffBaseStorage StatusDiffBaseStorage MultiDiffBaseStorage ProgressRecord ProgressStorage
AnnotationsProgressStorage StatusProgressStorage MultiProgressStorage SmartProgressStorage build fetch store purge touch clear flush
v1= touch_key= touch_field=

OperatorSettings settings.process.ultimate_exiting_timeout settings.posting.enabled settings.posting.loggers settings.posting.level
settings.posting.reporting_component settings.posting.reporting_instance settings.posting.event_name_prefix settings.peering.name
settings.peering.stealth settings.peering.priority settings.peering.lifetime settings.peering.mandatory settings.peering.standalone
settings.peering.clusterwide settings.peering.namespaced settings.watching.server_timeout settings.watching.client_timeout
settings.watching.connect_timeout settings.watching.reconnect_backoff settings.watching.inactivity_timeout
settings.watching.label_selectors settings.watching.field_selectors settings.watching.shard_selectors settings.watching.chunk_size
settings.watching.initial_streaming settings.posting.default_backoffs settings.posting.logging_backoffs
settings.posting.worker_limit settings.posting.idle_timeout settings.queueing.worker_limit settings.queueing.idle_timeout settings.queueing.exit_timeout settings.queueing.error_delays
settings.queueing.batch_window settings.batching settings.scanning.disabled settings.admission.server settings.admission.managed
settings.execution.default_backoff settings.execution.executor settings.execution.max_workers settings.networking.request_timeout
settings.networking.connect_timeout settings.networking.error_backoffs settings.networking.enforce_retry_after
settings.networking.trust_env settings.persistence.finalizer settings.persistence.progress_storage
settings.persistence.diffbase_storage settings.persistence.consistency_timeout settings.background.cancellation_polling
settings.background.instant_exit_timeout settings.background.instant_exit_zero_time_cycles

lifecycle registry memories indexers insights identity standalone priority peering_name liveness_endpoint clusterwide namespaces
stop_flag ready_flag vault loop --verbose --debug --quiet --log-format --log-prefix --log-refkey --module --all-namespaces
--namespace --standalone --dev --liveness --peering --priority KOPF_FREEZE_… KOPF_RESUME_… KOPF_RUN_…

kopf.testing.KopfRunner
`
