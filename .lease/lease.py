import os, subprocess, sys, time, shutil
limit=float(sys.argv[1]); most=3
out=os.environ['OUT']; W='/tmp/w'; os.makedirs(W,exist_ok=True)
queue=[l.strip() for l in open('.lease/queue.txt') if l.strip() and not l.startswith('#')]
begin=time.time()
def started(): return set(open(W+'/started').read().split('\n')) if os.path.exists(W+'/started') else set()
def alive():
    n=0
    for f in os.listdir(W):
        if f.endswith('.pid'):
            pid=int(open(f'{W}/{f}').read())
            try: os.kill(pid,0)
            except OSError: os.unlink(f'{W}/{f}'); continue
            st=open(f'/proc/{pid}/stat').read().split()[2]
            if st=='Z': os.unlink(f'{W}/{f}'); continue
            n+=1
    return n
src=f'{W}/src{int(begin)}'; shutil.copytree('src',src); shutil.copytree('benchmarks',src+'/benchmarks')
env=dict(os.environ,PYTHONPATH=src,XLA_PYTHON_CLIENT_PREALLOCATE='false',PYTHONUNBUFFERED='1',JAX_COMPILATION_CACHE_DIR='/tmp/jaxcache')
while time.time()-begin<limit:
    todo=[q for q in queue if q not in started()]
    if todo and alive()<most:
        q=todo[0]; i=len(started())
        open(W+'/started','a').write(q+'\n')
        log=open(f'{W}/log{i:02d}.txt','w')
        cmd=[sys.executable,src+'/benchmarks/reacher_variants.py',*q.split(),'--out',W+'/results.jsonl']
        p=subprocess.Popen(cmd,stdout=log,stderr=subprocess.STDOUT,env=env,start_new_session=True,cwd='/tmp')
        open(f'{W}/{i:02d}.pid','w').write(str(p.pid))
    if not todo and alive()==0: break
    time.sleep(1)
for f in sorted(os.listdir(W)):
    if f.startswith('log'):
        t=open(f'{W}/{f}').read().strip().split('\n'); print(f, ' | '.join(t[-2:])[-900:])
if os.path.exists(W+'/results.jsonl'): shutil.copy(W+'/results.jsonl',out+'/results.jsonl')
print('alive',alive(),'waiting',len([q for q in queue if q not in started()]))
subprocess.run(['nvidia-smi','--query-gpu=utilization.gpu,memory.used','--format=csv'])
